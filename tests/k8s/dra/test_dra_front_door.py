import inspect

import modelplane.k8s.dra as room


def test_the_list_of_public_names_is_exact():
    here = {
        name
        for name, value in vars(room).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("modelplane.")
    }
    aliases_and_constants = {"DEFAULT_STEPS", "Outcome", "Placement"}
    assert set(room.__all__) == here | aliases_and_constants


def test_every_public_class_and_function_of_the_room_is_documented():
    values = [getattr(room, name) for name in room.__all__]
    documented = [value for value in values if inspect.isclass(value) or inspect.isfunction(value)]
    wire = "modelplane.k8s.dra.resources"
    assert [value.__name__ for value in documented if not value.__doc__ and value.__module__ != wire] == []
