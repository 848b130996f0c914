"""Slow, obvious versions of the metrics, written from the recipes alone, to check the fast ones against.

Codes are [N, L] floats (rows, neurons); factors are [N, F] integers (rows, factors). Nothing here imports
the package. A per-factor score that is 0/0 (a constant factor) is nan unless its docstring says otherwise.
"""

import math

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC


def mean(values):
    """Plain mean of a list."""
    values = [float(value) for value in values]
    return math.fsum(values) / len(values)


def counts_of(labels):
    """How often each label occurs, as a dict."""
    counts = {}
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
    return counts


def top_gap(values):
    """Largest value minus the second largest."""
    ordered = sorted(values, reverse=True)
    return ordered[0] - ordered[1]


# Information


def entropy(labels):
    """Entropy of a label list, in nats, from counts."""
    labels = np.asarray(labels).tolist()
    total = 0.0
    for count in counts_of(labels).values():
        p = count / len(labels)
        total -= p * math.log(p)
    return total


def mutual_information(x_labels, y_labels):
    """Mutual information of two label lists, in nats, from counts; never below 0."""
    x_labels, y_labels = np.asarray(x_labels).tolist(), np.asarray(y_labels).tolist()
    n = len(x_labels)
    x_counts, y_counts = counts_of(x_labels), counts_of(y_labels)
    total = 0.0
    for (x, y), count in counts_of(list(zip(x_labels, y_labels, strict=True))).items():
        # integers inside the logarithm, so that a constant side gives exactly log 1 = 0
        total += count / n * math.log((count * n) / (x_counts[x] * y_counts[y]))
    return max(0.0, total)


def equal_width_labels(values, bins=20):
    """Labels 1..bins of equal-width bins between the minimum and the maximum."""
    left_edges = np.histogram_bin_edges(values, bins)[:-1].tolist()
    labels = []
    for value in np.asarray(values).tolist():
        label = 0
        for edge in left_edges:
            if value >= edge:
                label += 1
        labels.append(label)
    return np.array(labels)


def mutual_information_matrix(codes, factors, bins=20):
    """MI in nats of every binned neuron with every factor, [L, F]."""
    L, F = codes.shape[1], factors.shape[1]
    matrix = np.zeros((L, F))
    for i in range(L):
        labels = equal_width_labels(codes[:, i], bins)
        for j in range(F):
            matrix[i, j] = mutual_information(labels, factors[:, j])
    return matrix


def mig(codes, factors, bins=20):
    """Mutual information gap: (score, per-factor gaps over entropy); a constant factor gives nan."""
    matrix = mutual_information_matrix(codes, factors, bins)
    per_factor = []
    for j in range(factors.shape[1]):
        h = entropy(factors[:, j])
        per_factor.append(float(top_gap(matrix[:, j]) / h) if h > 0 else math.nan)
    return mean(per_factor), per_factor


def modularity(codes, factors, bins=20):
    """Modularity: (score, per-neuron values); a dead neuron counts 0; needs at least two factors."""
    matrix = mutual_information_matrix(codes, factors, bins)
    L, F = matrix.shape
    per_neuron = []
    for i in range(L):
        best = 0
        for j in range(F):
            if matrix[i, j] > matrix[i, best]:
                best = j
        if matrix[i, best] == 0:
            per_neuron.append(0.0)
            continue
        rest = 0.0
        for j in range(F):
            if j != best:
                rest += matrix[i, j] ** 2
        per_neuron.append(float(1 - rest / (matrix[i, best] ** 2 * (F - 1))))
    return mean(per_neuron), per_neuron


# Separated attribute predictability


def sap_classifier(train_codes, train_factors, test_codes, test_factors):
    """SAP with linear SVMs: (score, test accuracies [L, F])."""
    L, F = train_codes.shape[1], train_factors.shape[1]
    matrix = np.zeros((L, F))
    for i in range(L):
        for j in range(F):
            model = LinearSVC(C=0.01, class_weight="balanced")
            model.fit(train_codes[:, [i]], train_factors[:, j])
            predicted = model.predict(test_codes[:, [i]])
            hits = [p == t for p, t in zip(predicted, test_factors[:, j], strict=True)]
            matrix[i, j] = mean(hits)
    return mean([top_gap(matrix[:, j]) for j in range(F)]), matrix


def sap_r2(codes, factors):
    """SAP with squared correlations: (score, R^2 [L, F]); a constant factor gives nan."""
    L, F = codes.shape[1], factors.shape[1]
    matrix = np.zeros((L, F))
    for i in range(L):
        for j in range(F):
            (code_variance, covariance), (_, factor_variance) = np.cov(codes[:, i], factors[:, j])
            if code_variance < 1e-12:
                matrix[i, j] = 0.0
            elif factor_variance == 0:
                matrix[i, j] = math.nan
            else:
                matrix[i, j] = covariance**2 / (code_variance * factor_variance)
    gaps = []
    for j in range(F):
        gaps.append(math.nan if np.isnan(matrix[:, j]).any() else top_gap(matrix[:, j]))
    return mean(gaps), matrix


# Interventional robustness


def irs(codes, factors, quantile=0.99):
    """IRS: (score, robustness [L', F] of the L' neurons that vary); 0 when none varies."""
    F = factors.shape[1]
    factor_labels = [equal_width_labels(factors[:, j], 20) for j in range(F)]
    rows, weights = [], []
    for i in range(codes.shape[1]):
        z = codes[:, i]
        if z.min() == z.max():
            continue
        largest = np.abs(z - z.mean()).max()
        row = []
        for j in range(F):
            deviations = []
            for value in sorted(set(factor_labels[j].tolist())):
                group = z[factor_labels[j] == value]
                deviations.append(np.percentile(np.abs(group - group.mean()), 100 * quantile))
            row.append(1 - mean(deviations) / largest)
        rows.append(row)
        weights.append(largest)
    if not rows:
        return 0.0, np.zeros((0, F))
    weighted = [weight * max(row) for weight, row in zip(weights, rows, strict=True)]
    return float(sum(weighted) / sum(weights)), np.array(rows)


# Predictors on all neurons


def standardised(train_codes, test_codes):
    """Both code arrays z-scored with the train mean and std (ddof 0); a constant neuron is only centred."""
    train, test = np.zeros(train_codes.shape), np.zeros(test_codes.shape)
    for i in range(train_codes.shape[1]):
        centre, spread = train_codes[:, i].mean(), train_codes[:, i].std()
        if train_codes[:, i].min() == train_codes[:, i].max():
            spread = 1.0
        train[:, i] = (train_codes[:, i] - centre) / spread
        test[:, i] = (test_codes[:, i] - centre) / spread
    return train, test


def logistic_regression(codes, labels):
    """Multinomial logistic regression (C = 1) run to convergence."""
    return LogisticRegression(max_iter=100_000, tol=1e-10).fit(codes, labels)


def auc(positives, negatives):
    """Probability that a random positive outranks a random negative, ties one half."""
    wins = 0.0
    for p in positives:
        for n in negatives:
            if p > n:
                wins += 1.0
            elif p == n:
                wins += 0.5
    return wins / (len(positives) * len(negatives))


def explicitness(train_codes, train_factors, test_codes, test_factors):
    """Explicitness: (score, per-factor mean one-vs-rest AUC of the class probabilities), chance 0.5."""
    train, test = standardised(train_codes, test_codes)
    per_factor = []
    for j in range(train_factors.shape[1]):
        model = logistic_regression(train, train_factors[:, j])
        probabilities = model.predict_proba(test)
        areas = []
        for column, label in enumerate(model.classes_):
            is_label = test_factors[:, j] == label
            if is_label.all() or not is_label.any():  # no pair to compare on the test rows
                continue
            scores = probabilities[:, column]
            areas.append(auc(scores[is_label].tolist(), scores[~is_label].tolist()))
        per_factor.append(mean(areas) if areas else math.nan)
    return mean(per_factor), per_factor


def concentration(masses):
    """1 minus the entropy, in base len(masses), of the masses + 1e-11 scaled to sum 1."""
    shifted = [float(mass) + 1e-11 for mass in masses]
    total = sum(shifted)
    result = 1.0
    for mass in shifted:
        p = mass / total
        result += p * math.log(p) / math.log(len(shifted))
    return result


def disentanglement(importance):
    """DCI disentanglement of an importance matrix [L, F]; 0 when it is all zero."""
    importance = np.asarray(importance, dtype=float)
    mass = importance.sum()
    if mass == 0:
        return 0.0
    total = 0.0
    for i in range(importance.shape[0]):
        total += importance[i, :].sum() / mass * concentration(importance[i, :])
    return float(total)


def completeness(importance):
    """DCI completeness of an importance matrix [L, F]; 0 when it is all zero."""
    return disentanglement(np.asarray(importance).T)


def dci(train_codes, train_factors, test_codes, test_factors):
    """DCI with gradient-boosted trees (random_state 0): dict of D, C, I and the importance [L, F]."""
    L, F = train_codes.shape[1], train_factors.shape[1]
    importance = np.zeros((L, F))
    accuracies = []
    for j in range(F):
        model = GradientBoostingClassifier(random_state=0).fit(train_codes, train_factors[:, j])
        for i in range(L):
            importance[i, j] = abs(model.feature_importances_[i])
        predicted = model.predict(test_codes)
        accuracies.append(mean([p == t for p, t in zip(predicted, test_factors[:, j], strict=True)]))
    return {
        "disentanglement": disentanglement(importance),
        "completeness": completeness(importance),
        "informativeness": mean(accuracies),
        "importance": importance,
    }


def med(codes, factors, test_codes=None, test_factors=None, normalise=True, bins=20):
    """MED: dict of D, C, importance from MI (zero columns stay zero if normalised), and I given test rows."""
    importance = mutual_information_matrix(codes, factors, bins)
    if normalise:
        for j in range(factors.shape[1]):
            column = importance[:, j].sum()
            if column > 0:
                importance[:, j] = importance[:, j] / column
    result = {
        "disentanglement": disentanglement(importance),
        "completeness": completeness(importance),
        "importance": importance,
    }
    if test_codes is not None:
        train, test = standardised(codes, test_codes)
        accuracies = []
        for j in range(factors.shape[1]):
            predicted = logistic_regression(train, factors[:, j]).predict(test)
            accuracies.append(mean([p == t for p, t in zip(predicted, test_factors[:, j], strict=True)]))
        result["informativeness"] = mean(accuracies)
    return result


# Single-neuron classification


def equal_frequency_labels(values, bins):
    """Labels 0..bins-1 by rank, with borders at round(b * N / bins); assumes no ties."""
    n = len(values)
    borders = [round(b * n / bins) for b in range(bins + 1)]
    labels = np.zeros(n, dtype=int)
    for rank, row in enumerate(sorted(range(n), key=lambda row: values[row])):
        for b in range(bins):
            if borders[b] <= rank < borders[b + 1]:
                labels[row] = b
    return labels


def snc(codes, factors):
    """SNC: (score, per-factor adjusted accuracy, raw accuracy, chance = sum p^2); needs L >= F."""
    n, L = codes.shape
    F = factors.shape[1]
    assert L >= F, "every factor needs a neuron of its own"
    class_lists = [sorted(set(factors[:, j].tolist())) for j in range(F)]

    information = np.zeros((L, F))
    for i in range(L):
        for j in range(F):
            labels = equal_frequency_labels(codes[:, i], len(class_lists[j]))
            information[i, j] = mutual_information(labels, factors[:, j])
    neurons, columns = linear_sum_assignment(information, maximize=True)
    neuron_of = {int(j): int(i) for i, j in zip(neurons, columns, strict=True)}

    per_factor, accuracy, chance = [], [], []
    for j in range(F):
        classes = class_lists[j]
        labels = equal_frequency_labels(codes[:, neuron_of[j]], len(classes))
        hits = np.zeros((len(classes), len(classes)))
        for label, target in zip(labels.tolist(), factors[:, j].tolist(), strict=True):
            hits[label, classes.index(target)] += 1
        bins, matched = linear_sum_assignment(hits, maximize=True)
        a = sum(float(hits[b, c]) for b, c in zip(bins, matched, strict=True)) / n
        r = sum((count / n) ** 2 for count in counts_of(factors[:, j].tolist()).values())
        accuracy.append(a)
        chance.append(r)
        per_factor.append(max(0.0, (a - r) / (1 - r)) if r < 1 else math.nan)
    return mean(per_factor), per_factor, accuracy, chance


# Segmentation, by pairs of pixels


def pair_counts(true, pred):
    """Unordered pixel pairs: (together in both, together in true, together in pred, all)."""
    true, pred = np.asarray(true).tolist(), np.asarray(pred).tolist()
    both = in_true = in_pred = everything = 0
    for first in range(len(true)):
        for second in range(first + 1, len(true)):
            same_true = true[first] == true[second]
            same_pred = pred[first] == pred[second]
            both += same_true and same_pred
            in_true += same_true
            in_pred += same_pred
            everything += 1
    return both, in_true, in_pred, everything


def adjusted(found, expected, most):
    """(found - expected) / (most - expected), with 0/0 = 1."""
    if found == expected and most == expected:
        return 1.0
    return (found - expected) / (most - expected)


def ari_pairs(true, pred):
    """Adjusted Rand index."""
    both, in_true, in_pred, everything = pair_counts(true, pred)
    expected = in_true * in_pred / everything if everything else 0.0
    return adjusted(both, expected, (in_true + in_pred) / 2)


def arp_pairs(true, pred):
    """Adjusted Rand precision: of the pairs joined by pred, how many belong together."""
    both, in_true, in_pred, everything = pair_counts(true, pred)
    expected = in_true * in_pred / everything if everything else 0.0
    return adjusted(both, expected, in_pred)


def arr_pairs(true, pred):
    """Adjusted Rand recall: of the pairs that belong together, how many pred joins."""
    both, in_true, in_pred, everything = pair_counts(true, pred)
    expected = in_true * in_pred / everything if everything else 0.0
    return adjusted(both, expected, in_true)


# Analogies a : b :: c : d


def norm(vector):
    """Euclidean length."""
    return math.sqrt(sum(float(x) ** 2 for x in vector))


def analogy_loss(a, b, c, d, loss):
    """Loss of one analogy: "l2", "squared-l2", or "acos" (radians; nan where a difference is zero)."""
    if loss == "l2":
        return norm(b - a + c - d)
    if loss == "squared-l2":
        return norm(b - a + c - d) ** 2
    if loss == "acos":
        first, second = b - a, d - c
        lengths = norm(first) * norm(second)
        if lengths == 0:
            return math.nan
        cosine = sum(float(x) * float(y) for x, y in zip(first, second, strict=True)) / lengths
        return math.acos(min(1.0, max(-1.0, cosine)))
    raise ValueError(f"unknown loss {loss!r}")


def coat_vectors(a, b, c, d, group=64, loss="l2"):
    """COAT: 1 - mean over cases of L(case) / mean L with each d of its group of consecutive cases."""
    assert len(a) % group == 0, "the number of cases is a multiple of the group"
    ratios = []
    for case in range(len(a)):
        start = case // group * group
        losses = []
        for other in range(start, start + group):
            losses.append(analogy_loss(a[case], b[case], c[case], d[other], loss))
        own = losses[case - start]
        typical = mean(losses)
        ratios.append(own / typical if typical != 0 else math.nan)
    return 1 - mean(ratios)


def greedy_match(a, b, c, d):
    """Slots [K, D] matched greedily by ||b - a + c - d||: four index lists in the order picked."""
    K = len(a)
    residuals = {}
    for ia in range(K):
        for ib in range(K):
            for ic in range(K):
                for id_ in range(K):
                    residuals[ia, ib, ic, id_] = norm(b[ib] - a[ia] + c[ic] - d[id_])
    picked = []
    for _ in range(K):
        best = None
        for quadruple in residuals:  # in lexicographic order, so that the first wins a tie
            used = any(quadruple[side] == earlier[side] for earlier in picked for side in range(4))
            if not used and (best is None or residuals[quadruple] < residuals[best]):
                best = quadruple
        picked.append(best)
    return tuple([quadruple[side] for quadruple in picked] for side in range(4))
