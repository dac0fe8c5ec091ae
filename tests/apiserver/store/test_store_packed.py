import json
from hashlib import blake2b

from hypothesis import given
from hypothesis import strategies as st

from modelplane.apiserver.store.packed import BodyPacker


@given(st.lists(st.builds(bytes.__mul__, st.binary(max_size=20), st.sampled_from([1, 500])), max_size=12))
def test_whatever_is_packed_comes_back_in_any_order(texts):
    packer = BodyPacker()
    packed = [packer.pack(text) for text in texts]
    assert [packer.unpack(each) for each in reversed(packed)] == texts[::-1]


def pod(number, template):
    labels = {blake2b(f"{template}{each}".encode()).hexdigest()[:20]: "value" for each in range(20)}
    return json.dumps({"metadata": {"name": f"pod-{number}", "labels": labels}}).encode()


def test_objects_of_the_same_few_templates_shrink_to_what_they_differ_in():
    packer = BodyPacker()
    texts = [pod(number, template) for number in range(20) for template in ("one", "other")]
    assert max(len(packer.pack(text)) for text in texts) * 10 < len(texts[0])


def test_patterns_are_few_however_different_the_objects_are():
    packer = BodyPacker()
    texts = [bytes([number, *(each * number % 251 for each in range(300))]) for number in range(100)]
    packed = [packer.pack(text) for text in texts]
    assert {each[0] for each in packed} == set(range(8))
    assert [packer.unpack(each) for each in packed] == texts
