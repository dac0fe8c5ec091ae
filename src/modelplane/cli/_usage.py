"""The usage records of fleet routers, as a plane of this machine keeps them or as somebody collected them."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from modelplane.api.timestamps import epoch_s
from modelplane.router.usage_record import UsageRecord
from modelplane.views.fleet_cost import EndpointUsage
from modelplane.views.service_load import TokenRate

_LEAST_WINDOW_S = 60.0
_decode = msgspec.json.Decoder(UsageRecord).decode


def usage_files(data: Path) -> list[Path]:
    """Those of the plane with a data folder."""
    return sorted((data / "usage").glob("*.jsonl*"))


def read_usage(files: Iterable[Path], now: float, since_s: float) -> tuple[list[EndpointUsage], float]:
    """What was used of each endpoint, and for how long that was counted: since the first record, at most `since_s`."""
    sums: dict[str, EndpointUsage] = {}
    first = now
    for at, record in _records(files, now - since_s, now):
        if not record.endpoint:
            continue
        first = min(first, at)
        before = sums.get(record.endpoint, EndpointUsage(endpoint=record.endpoint))
        sums[record.endpoint] = EndpointUsage(
            endpoint=record.endpoint,
            requests=before.requests + 1,
            input_tokens=before.input_tokens + max(0, record.input_tokens),
            output_tokens=before.output_tokens + max(0, record.output_tokens),
            spent=before.spent + record.cost,
        )
    return list(sums.values()), max(now - first, _LEAST_WINDOW_S)


def token_rates(files: Iterable[Path], now: float, window_s: float) -> dict[str, TokenRate]:
    """Of each service that has records, by namespace and name: the mean of the window."""
    sums: dict[str, tuple[int, int]] = {}
    for _, record in _records(files, now - window_s, now):
        read, written = sums.get(record.service, (0, 0))
        sums[record.service] = (read + max(0, record.input_tokens), written + max(0, record.output_tokens))
    return {
        service: TokenRate(input_per_second=round(read / window_s, 3), output_per_second=round(written / window_s, 3))
        for service, (read, written) in sums.items()
    }


def _records(files: Iterable[Path], since: float, until: float) -> Iterator[tuple[float, UsageRecord]]:
    """Every line that is a record of that time: the last one of a router that was killed may be half a line."""
    for file in files:
        with file.open("rb") as lines:
            for line in lines:
                try:
                    record = _decode(line)
                except msgspec.DecodeError:
                    continue
                at = epoch_s(record.time)
                if at is not None and since <= at <= until:
                    yield at, record
