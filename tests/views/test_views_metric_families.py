"""Families are values with a bounded number of series."""

import pytest

from modelplane.views.metric_families import SERIES_LEFT_OUT, MetricSpec, SampleFamily, SecondsHistogram, bounded

SPEC = MetricSpec(name="modelplane_things", labels=("name",), help="Things.")


def family(*names, spec=SPEC):
    return SampleFamily(spec, {(name,): 1.0 for name in names})


@pytest.mark.parametrize(
    ("names", "kept", "left_out"),
    [
        ("", "", {}),
        ("cab", "cab", {}),
        ("dcab", "abc", {("modelplane_things",): 1}),
        ("fedcba", "abc", {("modelplane_things",): 3}),
    ],
)
def test_the_first_series_stay_and_the_others_are_counted(names, kept, left_out):
    assert bounded([family(*names)], most=3) == (family(*kept), SampleFamily(SERIES_LEFT_OUT, left_out))


def test_a_counter_is_left_out_under_the_name_that_queries_have():
    counter = MetricSpec(name="modelplane_things", type="counter", labels=("name",), help="Things.")
    assert bounded([family("a", "b", spec=counter)], most=1)[-1].values == {("modelplane_things_total",): 1}


@pytest.mark.parametrize(
    ("seconds", "counts"), [(0, (1, 0, 0)), (1, (1, 0, 0)), (1.5, (0, 1, 0)), (2, (0, 1, 0)), (3, (0, 0, 1))]
)
def test_a_bound_is_the_most_that_its_bucket_holds(seconds, counts):
    made = SecondsHistogram.empty((1.0, 2.0)).with_one(seconds)
    assert made == SecondsHistogram((1.0, 2.0), counts, seconds)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("gauge", "modelplane_x"),
        ("histogram", "modelplane_x"),
        ("counter", "modelplane_x_total"),
        ("info", "modelplane_x_info"),
    ],
)
def test_queries_name_counters_and_infos_with_their_suffix(kind, name):
    assert MetricSpec(name="modelplane_x", type=kind, help="X.").shown_name == name


def test_a_metric_has_ten_thousand_series_at_most():
    many = SampleFamily(SPEC, {(f"{n:05}",): 1.0 for n in range(10_001)})
    kept, left_out = bounded([many])
    assert (len(kept.values), left_out.values) == (10_000, {("modelplane_things",): 1})
    assert (left_out.spec.name, left_out.spec.labels) == ("modelplane_metrics_series_left_out", ("metric",))
