"""`mosaic quickstart`: from an empty home to a trained policy, told so that a CI log reads well."""

from __future__ import annotations

from typing import Any


def test_it_ends_with_result_folder_and_address(own_home: Any) -> None:
    mosaic = own_home()
    text = mosaic("quickstart").stdout
    run = mosaic.client.run("latest")
    assert run.state == "SUCCEEDED"
    for expected in ("[1/3]", "[2/3]", "[3/3]", "100%", "Return of an episode: ", str(run.folder), "/login?code="):
        assert expected in text
    assert text.index("[3/3]") < text.index("SUCCEEDED") < text.index("Return of an episode")
    assert "\x1b" not in text
    line = next(line for line in text.splitlines() if line.startswith("Return of an episode"))
    before, after = (float(word.replace(",", "")) for word in line.replace(" at ", " ").split() if _is_number(word))
    assert after > before + 100


def _is_number(word: str) -> bool:
    return word.lstrip("-").replace(",", "").replace(".", "").isdigit() and word != "100"
