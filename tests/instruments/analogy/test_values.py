"""The values of known models at the size tiny."""

from __future__ import annotations

import numpy as np
import pytest

from alebrije import adapters
from alebrije.adapters import Encoder
from alebrije.adapters.embeddings import Embeddings
from alebrije.errors import InputError
from alebrije.instruments.analogy import INSTRUMENT
from alebrije.instruments.analogy.codes import VARIANTS
from alebrije.instruments.analogy.study import SIZES
from alebrije.metrics.coat import HARD_NEGATIVES
from alebrije.results import Value
from alebrije.studies.encode import READS_SCENES
from alebrije.studies.folder import ResultFolder
from alebrije.studies.model import LoadedModel, TrainedModel
from alebrije.studies.request import Request
from alebrije.studies.run import plan_study, precheck_models
from alebrije.train.plan import plan
from tests.instruments.analogy.models import Constant, MeanColours
from tests.instruments.analogy.running import Results, results_of_model, score


@pytest.mark.parametrize("corpus", ["occluded", "unoccluded"])
@pytest.mark.parametrize("model", ["oracle", "projection"])
def test_true_factors_score_one_and_pass(references: Results, model: str, corpus: str) -> None:
    """Section 4.2 of Xie et al.: concatenated factors and a random projection of them score 1.0 and pass."""
    result = references[model, corpus]
    for metric in ("coat", "coat-l2", "coat-acos"):
        value = result.values[metric]
        assert value.score == pytest.approx(1.0, abs=1e-4)
        assert value.details["passed"] is True
        assert set(value.details["tests"]) == set(HARD_NEGATIVES) - {"pixel"}
        assert list(value.details["left out negatives"]) == ["pixel"]
    assert score(result, "fg-ari") == 1.0


@pytest.mark.parametrize("corpus", ["occluded", "unoccluded"])
def test_noise_is_at_chance(references: Results, corpus: str) -> None:
    result = references["noise", corpus]
    for metric in ("coat", "coat-l2", "coat-acos"):
        assert abs(score(result, metric)) < 0.12
        assert result.values[metric].details["passed"] is False
    assert abs(score(result, "fg-ari")) < 0.02
    assert result.values["tre"].details["relative"] > 0.9


def test_pixels_add_up_without_occlusion_but_less_under_it(references: Results) -> None:
    hidden, plain = references["pixels", "occluded"], references["pixels", "unoccluded"]
    for metric in ("coat", "coat-l2", "coat-acos"):
        intervals = plain.values[metric].interval, hidden.values[metric].interval
        assert intervals[0] is not None
        assert intervals[1] is not None
        assert intervals[0].low > intervals[1].high
    assert score(plain) > 0.95
    assert score(hidden) < 0.9
    for result in (hidden, plain):  # the negative `pixel` is b - a + c in pixels
        value = result.values["coat"]
        assert value.details["tests"]["pixel"]["p_hat"] == 0.0
        assert value.details["passed"] is False
        assert "too long" in str(result.values["tre"].reason)


def test_tre_is_lower_for_true_factors_than_for_noise(references: Results) -> None:
    errors = {model: references[model, "occluded"].values["tre"].details["relative"] for model in ("oracle", "noise")}
    assert errors["oracle"] < errors["noise"]


def test_values_have_intervals_and_cells_have_labels(references: Results) -> None:
    for (model, corpus), result in references.items():
        assert result.cell.labels == {"size": "tiny", "model": model, "corpus": corpus, "pixels": 64}
        value = result.values["coat"]
        assert value.interval is not None
        assert value.interval.low <= score(result) <= value.interval.high
        assert value.standard_error is not None
        assert (value.direction, value.details["cases"]) == ("higher", SIZES["tiny"].cases)


def test_samples_are_kept(references: Results, folder: ResultFolder) -> None:
    kept = folder.samples(references["pixels", "occluded"].cell)
    assert sorted(kept) == ["a", "b", "c", "d", "decoded", "losses", "negative_losses", "negatives"]
    assert kept["decoded"].shape == kept["d"].shape == (8, 3, 64, 64)
    assert kept["negatives"].shape == (8, 7, 3, 64, 64)
    assert np.abs(kept["decoded"].astype(int) - kept["negatives"][:, -1].astype(int)).max() <= 1  # the negative `pixel`
    difference = (kept["b"].astype(float) - kept["a"] + kept["c"] - kept["d"]) / 255
    assert np.allclose(kept["losses"], np.square(difference).sum((1, 2, 3)), rtol=1e-4)
    known = folder.samples(references["oracle", "occluded"].cell)
    assert "decoded" not in known
    assert np.allclose(known["losses"], 0, atol=1e-6)
    assert (known["negative_losses"][:, :-1] > 0.1).all()
    assert np.isnan(known["negative_losses"][:, -1]).all()


def test_a_users_model_is_examined(folder: ResultFolder) -> None:
    results = results_of_model(folder, LoadedModel(adapters.load(MeanColours())))
    assert {result.cell.labels["model"] for result in results.values()} == {"MeanColours"}
    values = results["unoccluded", None].values
    assert set(values) == set(INSTRUMENT.metrics)
    assert set(values["coat"].details["tests"]) == set(HARD_NEGATIVES)
    assert values["fg-ari"].score is None
    assert values["tre"].score is not None
    assert score(results["unoccluded", None]) > score(results["occluded", None])


def test_constant_codes_fail_the_precheck_and_are_null(folder: ResultFolder) -> None:
    model = LoadedModel(adapters.load(Constant()))
    planned = plan_study(INSTRUMENT, folder, Request(size="tiny", loaded=(model,), only_loaded=True))
    with pytest.raises(InputError, match="it returns the same codes for all images"):
        precheck_models([planned], folder)
    values = {name: value for name, value in planned.jobs[0].work().items() if isinstance(value, Value)}
    for metric in ("coat", "tre"):
        assert values[metric].score is None
        assert "same" in str(values[metric].reason)


@pytest.mark.parametrize("shape", [(2, 5), (2, 3, 5)])
def test_embeddings_of_other_images_are_null(folder: ResultFolder, shape: tuple[int, ...]) -> None:
    codes = np.arange(np.prod(shape), dtype="f4").reshape(shape)
    embeddings = Embeddings("codes.npz", {"codes": codes, "images": np.zeros((2, 3, 4, 4), "u1")})
    results = results_of_model(folder, LoadedModel(Encoder(embeddings, name="embeddings")))
    assert {variant for _, variant in results} == (set(VARIANTS) if len(shape) == 3 else {None})
    for result in results.values():
        assert set(result.values) == set(INSTRUMENT.metrics)
        assert all(value.score is None and "codes.npz" in str(value.reason) for value in result.values.values())


def test_a_model_that_reads_scenes_is_null(folder: ResultFolder) -> None:
    oracle = plan("svib-oracle", preset_name="tiny", world="sprites", images=4, settings={"steps": 1})
    for result in results_of_model(folder, TrainedModel(oracle, folder)).values():
        assert {value.reason for value in result.values.values()} == {READS_SCENES}
