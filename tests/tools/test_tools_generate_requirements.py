from modelplane.catalog.stack import load_stack
from tools.generate_requirements import PAGE, page


def test_the_page_is_up_to_date_and_names_every_component():
    text = PAGE.read_text()
    assert text == page()
    assert all(f"| `{component.name}` |" in text for component in load_stack().components)
