"""What the numbers say: every verdict at and beside its thresholds."""

from __future__ import annotations

import pytest

from alebrije.metrics.analogy import HARD_NEGATIVES
from alebrije.report import words
from alebrije.report.page import in_words
from alebrije.report.words import (
    Analogies,
    Factor,
    Verdict,
    analogy_verdict,
    at_chance,
    grouping_verdict,
    imagination_verdict,
    listed,
    neurons_verdict,
    over_settings,
)
from alebrije.results import Estimate

PASSED = dict.fromkeys(HARD_NEGATIVES, True)


def sure(value, half=0.01):
    return Estimate(value, low=value - half, high=value + half)


def test_chance_is_an_interval_that_holds_it_or_a_score_hardly_above_it():
    assert at_chance(Estimate(0.3, low=-0.01, high=0.6))
    assert not at_chance(Estimate(0.3, low=0.01, high=0.6))
    assert at_chance(sure(0.05)), "no more than the margin above chance"
    assert not at_chance(sure(0.06))
    assert at_chance(Estimate(-0.4, low=-0.5, high=-0.3)), "worse than chance is no better"
    assert at_chance(Estimate(None))
    assert at_chance(sure(0.24), chance=0.2)
    assert not at_chance(sure(0.26), chance=0.2)


@pytest.mark.parametrize(
    ("coat", "failed", "mark", "told"),
    [
        (0.77, (), "good", "Its codes add up under occlusion (COAT 0.77, passes all seven hard negatives)."),
        (0.5, (), "good", "COAT 0.50"),
        (0.49, (), "partly", "add up a little under occlusion (COAT 0.49, below 0.5, passes all seven hard negatives)"),
        (0.77, ("drop", "size"), "partly", "fails the hard negatives drop and size under occlusion, so its score"),
        (0.77, ("pixel",), "partly", "fails the hard negative pixel under occlusion"),
        (
            0.67,
            HARD_NEGATIVES,
            "chance",
            "fails all seven hard negatives under occlusion: its codes do not tell",
        ),
        (0.0, HARD_NEGATIVES, "chance", "no better than chance (COAT 0.00, 95 % interval -0.01 to 0.01)"),
    ],
)
def test_analogies_under_occlusion(coat, failed, mark, told):
    verdict = analogy_verdict({"occluded": Analogies(sure(coat), PASSED | dict.fromkeys(failed, False))})
    assert verdict.mark == mark
    assert told in verdict.text


def test_the_occluded_corpus_decides_and_the_other_is_told_of():
    easy, hard = Analogies(sure(0.97), PASSED), Analogies(sure(0.75), PASSED | {"pixel": False})
    verdict = analogy_verdict({"unoccluded": easy, "occluded": hard})
    assert verdict.mark == "partly"
    assert "Without occlusion: 0.97; part of that is lost once objects hide each other." in verdict.text
    assert analogy_verdict({"unoccluded": easy}).text.startswith("Its codes add up without occlusion (COAT 0.97")
    assert "lost" not in analogy_verdict({"occluded": easy, "unoccluded": easy}).text
    assert analogy_verdict({}).mark == "none"


def test_a_code_without_tests_is_not_said_to_pass_them():
    assert "hard negatives" not in analogy_verdict({"occluded": Analogies(sure(0.9), {})}).text


def test_imagination_names_what_is_right_and_what_is_wrong():
    factors = {
        "color": Factor(sure(0.98), sure(0.99)),
        "size": Factor(sure(0.97)),
        "shape": Factor(sure(0.41), sure(0.95)),
        "material": Factor(sure(0.7), sure(0.96)),
    }
    verdict = imagination_verdict(sure(0.6), factors, Factor(sure(0.76), sure(0.97)))
    assert verdict.mark == "partly"
    assert verdict.text == (
        "It imagines new combinations in part (skill 0.60; 76 % of the factors are right on new combinations, 97 % on "
        "seen ones). Color and size right (97 to 98 %), material partly right (70 % against 96 % on seen ones), shape "
        "wrong on new combinations (41 % against 95 % on seen ones)."
    )


@pytest.mark.parametrize(
    ("skill", "read", "mark"),
    [
        (0.9, 0.9, "good"),
        (0.9, 0.89, "partly"),
        (0.0, 0.95, "chance"),
        (0.5, None, "good"),
        (0.49, None, "partly"),
        (-3.0, None, "chance"),
    ],
)
def test_imagination_by_its_thresholds(skill, read, mark):
    whole = None if read is None else Factor(sure(read))
    verdict = imagination_verdict(sure(skill), {}, whole)
    assert verdict.mark == mark
    if mark == "chance":
        assert "no better than the best constant image" in verdict.text


def test_what_is_wrong_already_on_seen_combinations_is_not_laid_to_the_new_ones():
    factors = {"shape": Factor(sure(0.27), sure(0.3)), "size": Factor(sure(0.4), sure(0.9))}
    told = imagination_verdict(sure(0.5), factors).text
    assert "size wrong on new combinations (40 % against 90 % on seen ones)" in told.lower()
    assert "Shape wrong on seen combinations as well, so not because others are new (27 % against 30 % on" in told


def test_a_model_that_is_wrong_on_seen_combinations_too_imagines_nothing_in_part():
    factors = {"shape": Factor(sure(0.27), sure(0.3)), "size": Factor(sure(0.4), sure(0.4))}
    verdict = imagination_verdict(sure(0.5), factors)
    assert verdict.mark == "partly"
    assert "in part" not in verdict.text
    assert verdict.text.startswith("It predicts a part of the image but not the factors, be the combinations new or")


def test_no_more_is_asked_than_can_be_read_from_true_images():
    whole = Factor(sure(0.75), sure(0.78), sure(0.8))
    verdict = imagination_verdict(sure(0.9), {"shape": Factor(sure(0.55), None, sure(0.6))}, whole)
    assert verdict.mark == "good"
    assert "of true images 80 % can be read" in verdict.text
    assert "Shape right (55 %)" in verdict.text


def test_imagination_without_a_number_is_not_examined():
    assert imagination_verdict(None, {}).mark == "none"
    assert imagination_verdict(Estimate(None, reason="it draws nothing"), {}).mark == "none"


@pytest.mark.parametrize(
    ("ari", "precision", "recall", "mark", "told"),
    [
        (0.8, 0.82, 0.78, "good", "Neither too fine nor too coarse (precision 0.82, recall 0.78)"),
        (0.79, 0.97, 0.6, "partly", "Too fine: objects are split (precision 0.97, recall 0.60)"),
        (0.6, 0.5, 0.9, "partly", "Too coarse: objects are merged (precision 0.50, recall 0.90)"),
        (0.09, 0.11, 0.11, "partly", "It groups pixels into objects in part (FG-ARI 0.09)."),
        (0.01, 0.5, 0.0, "chance", "Its groups have nothing to do with objects"),
    ],
)
def test_groups_are_too_fine_or_too_coarse(ari, precision, recall, mark, told):
    verdict = grouping_verdict(sure(ari), sure(precision), sure(recall))
    assert verdict.mark == mark
    assert told in verdict.text
    assert ari >= words.ARI_FAIR or "Neither" not in verdict.text


def test_a_model_without_masks_is_not_examined_and_says_why():
    verdict = grouping_verdict(Estimate(None), None, None, missing="the model has no masks")
    assert (verdict.mark, verdict.text) == ("none", "No verdict: the model has no masks.")


@pytest.mark.parametrize(
    ("snc", "nk", "chance", "mark", "told"),
    [
        (0.9, 0.8, 0.0, "good", "One neuron holds each factor, and that one alone (SNC 0.90, NK 0.80)"),
        (0.9, 0.1, 0.0, "good", "One neuron holds each factor; the other neurons hold it as well (SNC 0.90, NK 0.10)"),
        (0.3, 0.1, 0.0, "partly", "the factors in part; the other neurons hold them as well (SNC 0.30, NK 0.10)"),
        (0.3, None, 0.0, "partly", "Single neurons hold the factors in part (SNC 0.30)"),
        (0.3, None, 0.27, "chance", "SNC 0.30, shuffled codes 0.27"),
        (0.02, None, 0.0, "chance", "No neuron holds a factor: no more than 0.05 better than chance"),
    ],
)
def test_neurons_by_their_thresholds(snc, nk, chance, mark, told):
    verdict = neurons_verdict(sure(snc), None if nk is None else sure(nk), chance=chance)
    assert verdict.mark == mark
    assert told in verdict.text


@pytest.mark.parametrize(
    ("new", "normal", "told"),
    [
        (0.9, 0.95, "what they know is kept"),
        (0.6, 0.95, "part of it is lost"),
        (0.1, 0.95, "most of it is lost"),
        (0.0, 0.01, "read nothing, not even on the normal test set"),
        (0.4, None, "held-out combinations: 40 % above chance."),
    ],
)
def test_generalisation_in_words(new, normal, told):
    verdict = neurons_verdict(sure(0.9), None, sure(new), None if normal is None else sure(normal))
    assert told in verdict.text


def test_a_score_that_may_be_luck_is_not_said_to_be_nothing():
    wide = Estimate(0.4, low=-0.2, high=1.0)
    for verdict in (
        analogy_verdict({"occluded": Analogies(wide, PASSED)}),
        imagination_verdict(wide, {}),
        grouping_verdict(wide, None, None),
        neurons_verdict(wide),
    ):
        assert verdict.mark == "chance"
        assert "cannot be told: not significantly better than" in verdict.text


def test_of_several_settings_the_best_is_named():
    verdict = grouping_verdict(sure(0.5), sure(0.5), sure(0.5), 3, best=("train slots 5", 0.8))
    assert verdict.text.endswith("Means over 3 settings; the best is train slots 5 with FG-ARI 0.80.")


def test_one_setting_keeps_its_interval_and_several_have_none():
    assert over_settings([sure(0.5), Estimate(None)]) == sure(0.5)
    several = over_settings([sure(0.5), sure(0.7)])
    assert (several.value, several.low, several.n) == (0.6, None, None)  # n would count seeds
    assert over_settings([]) is None


def test_marks_can_be_told_without_colour():
    signs = [sign for sign, _ in words.SIGNS.values()]
    assert len(set(signs)) == len(signs)


def test_the_rules_name_their_thresholds():
    assert f"{words.COAT_GOOD:g}" in words.RULES["analogy"]
    assert f"{words.FACTOR_RIGHT:.0%}" in words.RULES["imagination"]
    assert "worse than showing the source unchanged" in words.RULES["imagination"]
    assert f"{words.ARI_GOOD:g}" in words.RULES["grouping"]
    assert f"{words.SNC_GOOD:g}" in words.RULES["neurons"]


def test_lists_in_words():
    assert [listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])] == ["a", "a and b", "a, b and c"]


def test_no_line_ends_between_a_number_and_its_percent_sign():
    verdict = Verdict("good", "word " * 12 + "and 79 % of all, " * 30)
    told = in_words({"model": {"neurons": verdict}})
    assert " 79 %" in told
    assert not any(line.strip().startswith("%") for line in told.splitlines())
    assert "79 %" not in verdict.unbroken
    assert verdict.unbroken.split() == verdict.text.split()  # a no-break space is a space to those who read words
