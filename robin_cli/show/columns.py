"""The public tables and columns, by their names in files, JSON and Python. docs/columns.md is printed from it."""

from __future__ import annotations

from dataclasses import replace

from robin_cli.show.tables import Column, Form, Hide, declared

_CERTIFIED = "On average at most `--error-rate` of such rows is wrong."
INTERVALS = "Intervals over prompts: Student's t for means and differences, wider if few prompts carry them; exact for shares"
_PEOPLE = "By people's labels: "


def _interval(
    what: str,
    says: str,
    form: Form,
    label: str = "95 %",
    rank: int = 0,
    hide: Hide = "",
    *,
    returned: bool = False,
) -> tuple[Column, Column]:
    """Return the columns what both ends what an interval."""
    low, high = f"{what}_low", f"{what}_high"
    return (
        Column(low, says, form, label, high, rank, hide, returned=returned),
        Column(high, says, form, returned=returned),
    )


# fmt: off
SCORES = declared("scores", "The scores", "pair and attribute, in the order of the data", (
    Column("pair_id", "The pair's id.", "id", "pair"),
    Column("attribute", "The attribute.", "name"),
    Column("judge", "With `--what judge-scores`: the judge.", "name"),
    Column("score", "The mean of the ratings; of a panel the mean over judges, with --decide a weighted one.", "number",
           returned=True),
    Column("n", "Ratings.", "count", "ratings", rank=6, returned=True),
    Column("variance", "Variance of the ratings; empty below two.", "number", rank=8),
    Column("std_error", "Standard error, from a variance shrunk toward that of other pairs.", "number"),
    *_interval("ci", "95 % interval: holds on average over pairs.", "number", rank=1, returned=True),
    *_interval("guaranteed", "With `--guaranteed`: 95 % interval that holds for this pair, at any stop.", "number",
               "guaranteed", 3, returned=True),
    Column("n_unparsed", "Answers without a rating.", "count", "unparsed", rank=9, hide="zero"),
    Column("human", "The data's human rating.", "number", rank=5, hide="empty"),
    Column("given_up", "Why robin gave the pair up.", "name", rank=4, hide="empty", returned=True),
    Column("judges", "Panels: judges that gave a rating.", "count"),
    Column("judge_spread", "Panels: standard deviation between judges, beyond noise.", "number",
           "judges ±", rank=7),
    Column("decision", "With `--decide`: keep or drop, best or rejected, by the score; undecided without a rating.", "word",
           rank=1, returned=True),
    Column("likely_wrong", "The chance that the decision is wrong by more than the margin.", "number", rank=2,
           returned=True),
    Column("certified", f"With `--certify`: whether it is certified. {_CERTIFIED}", "flag", rank=2,
           returned=True),
    Column("group", "With `--decide best`: the pairs compared.", "name", rank=10),
    Column("agreed", "With `--agree`: whether people agree, as promised.", "flag"),
    Column("prompt_id", "If several pairs answer one prompt: which do.", "name"),
), terminal=("pair_id", "attribute", "judge", "group", "decision", "likely_wrong", "certified", "agreed", "score", "ci_low",
             "guaranteed_low", "judge_spread", "variance", "human", "n_unparsed", "given_up", "n"))

DECISIONS = declared("decisions", "What was decided: `Run.decisions()`", "pair, with `--decide best` pair and attribute", (
    Column("pair_id", "The pair's id.", "id", "pair"),
    *(SCORES.columns[name] for name in ("attribute", "group", "decision", "likely_wrong", "certified", "agreed", "score")),
    Column("ATTRIBUTE_score", "The score of each attribute.", "number"),
))

COMPARISONS = declared("scores", "The scores of a pairwise run", "comparison, in the order of the data", (
    Column("pair_id", "The comparison's id.", "id", "comparison"),
    Column("judge", "With `--what judge-scores`: the judge.", "name"),
    Column("system_a", "The systems that wrote A and B.", "name", "A", hide="empty"),
    Column("system_b", "The systems that wrote A and B.", "name", "B", hide="empty"),
    Column("preference", "Probability that A is better, over both orders.", "number", "A preferred"),
    Column("n", "Verdicts.", "count", "verdicts", rank=6),
    Column("n_ties", "Ties among them.", "count", "ties", rank=7, hide="zero"),
    *_interval("ci", "95 % interval: holds on average over comparisons.", "number", rank=1),
    *_interval("guaranteed", "With `--guaranteed`: 95 % interval that holds for this comparison, at any stop.", "number",
               "guaranteed", 3),
    Column("order_effect", "The order effect: half of A first − B first.", "signed", "order ±", rank=5),
    Column("n_unparsed", "Answers without a verdict.", "count", "unparsed", rank=8, hide="zero"),
    Column("given_up", "Why robin gave the comparison up.", "name", rank=4, hide="empty"),
    Column("best", "With `--decide best`: A or B, if best of its prompt.", "word", hide="empty"),
    Column("likely_wrong", "The chance that another response to the prompt is preferred by more than the margin.", "number",
           rank=2, hide="empty"),
    Column("certified", f"With `--certify`: whether that best is certified. {_CERTIFIED}", "flag", rank=2),
    Column("agreed", "With `--agree`: whether people agree, as promised.", "flag"),
    Column("a_first", "Preference for A if the judge read A first.", "number", "A first", rank=9, for_people=True),
    Column("b_first", "Preference for A if the judge read B first.", "number", "B first", rank=9, for_people=True),
), terminal=("pair_id", "judge", "system_a", "system_b", "best", "likely_wrong", "certified", "preference", "ci_low",
             "guaranteed_low", "a_first", "b_first", "order_effect", "n_ties", "n_unparsed", "given_up", "n"))

RANKING = declared("ranking", "The ranking of the systems of a pairwise run", "system, the best first", (
    Column("system", "The system.", "name"),
    Column("strength", "Bradley–Terry strength, 0 on average; differences are log odds.",
           "signed"),
    *_interval("ci", "95 % interval, for prompts like these.", "signed", rank=1),
    Column("rank", "1 is best.", "count"),
    *_interval("rank", "Ranks not ruled out, at 95 % for each system.", "count", "ranks"),
    Column("n_votes", "Its verdicts.", "count", "verdicts", rank=3),
    Column("win_rate", "How often it is preferred; opponents have equal weight.", "number", "wins", rank=2),
    *_interval("win", "Its 95 % interval.", "number", "wins 95 %", 4),
), terminal=("system", "rank", "rank_low", "strength", "ci_low", "win_rate", "win_low", "n_votes"))

JUDGMENTS = declared("judgments", "Every judgment", "answer, in the order in which they came", (
    Column("pair_id", "The pair's id.", "id"),
    Column("attribute", "The attribute; if pairwise, which response came first.", "name"),
    Column("rating", "The rating; if pairwise, 2: A is better, 1: tie, 0: B is better.", "count"),
    Column("status", "ok, unparsed or failed.", "name"),
    Column("reason", "Why there is no rating.", "name"),
    Column("feedback", "The feedback in the answer.", "id"),
    Column("text", "The answer.", "id"),
    Column("model", "The model, as the endpoint names it.", "name"),
    Column("finish_reason", "Why the answer ended.", "name"),
    Column("prompt_tokens", "Tokens sent.", "count"),
    Column("completion_tokens", "Tokens answered.", "count"),
    Column("cost_usd", "US dollars; empty without a price.", "number"),
    Column("latency_s", "Seconds until the answer.", "number"),
    Column("request_id", "The endpoint's id of it.", "id"),
    Column("received_at", "When it came, UTC."),
    Column("draw", "Number of the answer to this question, from 0.", "count"),
    Column("usage_estimated", "Whether the tokens are estimated.", "flag"),
    Column("judge", "The judge that was asked.", "name"),
    Column("scoring", "text; logprobs or decisions for an expectation.", "name"),
    Column("expected_rating", "With `--answers logprobs` or `decisions`: the expectation.", "number"),
    Column("off_scale_mass", "Probability of texts that are no rating.", "number"),
    Column("text_because", "Why the text was rated instead.", "name"),
    Column("cached_tokens", "Cached tokens sent.", "count"),
    Column("reasoning_tokens", "Tokens of reasoning.", "count"),
    Column("fingerprint", "The endpoint's fingerprint of the model's configuration.", "name"),
    Column("probabilities", "With `--answers decisions`: of each level, as JSON.", "id"),
))

_OF_JUDGES = "The attribute; of a panel with the judge."
AGREEMENT = declared("agreement", "Agreement of judge and people, among people, among judges, and of the judge with itself",
                     "attribute and coefficient", (
    Column("attribute", f"{_OF_JUDGES} `· people`, `· judges`: among several of these.", "name"),
    Column("coefficient", "alpha (Krippendorff's, interval), pearson, spearman, kendall, kappa (weighted), alpha_ordinal; if "
           "pairwise also same, the share with the same preference. Of the judge alone: reliability, ceiling, icc.", "name"),
    Column("value", "The coefficient.", "number"),
    *_interval("ci", "Its 95 % interval, bootstrap over prompts; empty below 20.", "number"),
    Column("n", "Pairs.", "count", "pairs", rank=1),
    Column("n_prompts", "Their prompts.", "count", "prompts", rank=2),
    Column("resamples", "Bootstrap resamples.", "count", rank=5),
    Column("rounding", "For kappa and alpha_ordinal: how values become levels.", "name", rank=4, hide="empty"),
    Column("why", "Why one is missing.", "name", hide="empty"),
), terminal=("attribute", "coefficient", "value", "ci_low", "n", "n_prompts", "resamples", "rounding", "why"))

CALIBRATION = declared("calibration", "Human ratings by score", "attribute and level of the scale that pairs have", (
    Column("attribute", _OF_JUDGES, "name"),
    Column("level", "The level to which scores round; on long scales the lowest of a bin; for preferences a quarter.",
           "count"),
    Column("to_level", "The highest of the bin.", "count", "to"),
    Column("n", "Pairs with such a score.", "count", "pairs"),
    Column("n_prompts", "Their prompts.", "count", "prompts"),
    Column("mean_score", "Their mean score.", "number"),
    Column("mean_human", "Their mean human rating.", "number"),
    *_interval("ci", "95 % interval of that, over prompts.", "number"),
), terminal=("attribute", "level", "to_level", "n", "n_prompts", "mean_score", "mean_human", "ci_low"))

PREFERENCES = declared("preferences", "Preferences, for training", "response worse than its group's best, or comparison", (
    Column("prompt", "The prompt; with `--messages` in the conversations.", "id"),
    Column("chosen", "The better response.", "id"),
    Column("rejected", "The worse response.", "id"),
    Column("margin", "Difference of the scores; if pairwise, preference − ½.", "number"),
    Column("certified", "With `--decide best --certify`: whether the chosen one is certified as the best.", "flag"),
    Column("attribute", "The attribute, if several.", "name"),
), terminal=("prompt", "chosen", "rejected", "margin", "certified", "attribute"))

SUMMARY = declared("summary", "Means of the scores", "attribute, with `--by COLUMN` also value of it, which comes first", (
    Column("attribute", "The attribute.", "name"),
    Column("n_prompts", "Prompts with a score.", "count", "prompts", rank=3),
    Column("n_pairs", "Pairs with a score.", "count", "pairs", rank=5),
    Column("mean", "The mean of the scores.", "number"),
    *_interval("ci", "95 % interval, over prompts; empty below 5.", "number"),
    Column("share", "With `--threshold T`: share of scores of at least T.", "number"),
    *_interval("share", "Its 95 % interval.", "number", "share 95 %", 1),
    Column("corrected_mean", f"{_PEOPLE}the mean.", "number", "corrected", hide="empty"),
    *_interval("corrected", f"{_PEOPLE}95 % interval.", "number", "corrected 95 %", hide="empty"),
    Column("n_labels", "People's labels.", "count", "labels", rank=4),
), terminal=("attribute", "n_prompts", "n_pairs", "mean", "ci_low", "share", "share_low", "corrected_mean", "corrected_low",
             "n_labels"))

LABELS_WANTED = declared("labels-wanted", "Pairs for people to label", "pair and attribute, those labelled already first", (
    Column("pair_id", "The pair's id.", "id", "pair"),
    Column("attribute", "What to rate.", "name"),
    Column("probability", "Probability with which it was drawn.", "number", rank=1),
    Column("label", "To fill in; for a comparison A, B, tie, or the share for A.", "number"),
    Column("prompt", "The prompt.", "id"),
    Column("reference", "The reference answer, if any.", "id"),
    Column("response", "The response.", "id"),
    Column("response_a", "Both responses of a comparison.", "id"),
    Column("response_b", "Both responses of a comparison.", "id"),
), terminal=("pair_id", "attribute", "probability", "label", "prompt", "response", "response_a", "response_b"))

JUDGE_QUALITY = declared("judge-quality", "How often the judge decides as people do", "attribute", (
    Column("attribute", "The attribute.", "name"),
    Column("threshold", "The threshold; if pairwise, 0.5.", "number", rank=4),
    Column("accuracy", "Share of labelled pairs decided as by people.", "number"),
    *_interval("accuracy", "Its 95 % interval.", "number"),
    Column("tpr", "True positive rate: of what people keep, the share that the judge keeps.", "number"),
    *_interval("tpr", "Its 95 % interval.", "number", rank=1),
    Column("tnr", "True negative rate: of what people drop, the share that the judge drops.", "number"),
    *_interval("tnr", "Its 95 % interval.", "number", rank=1),
    Column("precision", "Of what the judge keeps, the share that people keep.", "number", rank=2),
    *_interval("precision", "Its 95 % interval.", "number", rank=2),
    Column("f1", "Harmonic mean of precision and tpr.", "number", rank=3),
    *_interval("f1", "Its 95 % interval.", "number", rank=4),
    Column("kappa", "Cohen's κ: agreement beyond chance.", "number"),
    *_interval("kappa", "Its 95 % interval.", "number", rank=2),
    Column("n_labels", "Labels of pairs with a score.", "count", "labels", rank=2),
    Column("both", "Labelled pairs that both keep.", "count", rank=5),
    Column("judge_alone", "Labelled pairs that the judge alone keeps.", "count", rank=5),
    Column("people_alone", "Labelled pairs that people alone keep.", "count", rank=5),
    Column("neither", "Labelled pairs that both drop.", "count", rank=5),
    Column("share", "Share of all pairs that the judge keeps.", "number", "kept", rank=6),
    Column("corrected_share", "The same, corrected for the judge's errors.", "number", "corrected"),
    *_interval("corrected_share", "Its 95 % interval.", "number"),
), terminal=("attribute", "threshold", "accuracy", "accuracy_low", "tpr", "tnr", "precision", "f1", "kappa", "n_labels", "both",
             "judge_alone", "people_alone", "neither", "corrected_share", "corrected_share_low"))

DISAGREEMENTS = declared("disagreements", "Where the judge and people are furthest apart", "labelled pair and attribute", (
    Column("pair_id", "The pair's id.", "id", "pair"),
    Column("attribute", "The attribute.", "name"),
    Column("score", "The judge's score.", "number"),
    Column("label", "The label.", "number"),
    Column("difference", "The score less the label.", "signed", rank=1),
    *(LABELS_WANTED.columns[name] for name in ("prompt", "reference", "response", "response_a", "response_b")),
), terminal=("pair_id", "attribute", "score", "label", "difference", "prompt", "response", "response_a", "response_b"))

DIFFERENCES = declared("compare", "How far systems are apart: `robin compare`", "two systems and attribute", (
    Column("a", "The two systems.", "name"),
    Column("b", "The two systems.", "name"),
    Column("attribute", "The attribute.", "name"),
    Column("n_prompts", "Prompts that both answered.", "count", "prompts", rank=4),
    Column("mean_a", "Means over prompts of equal weight.", "number", rank=2),
    Column("mean_b", "Means over prompts of equal weight.", "number", rank=2),
    Column("difference", "a − b.", "signed"),
    Column("std_error", "Its standard error, over prompts.", "number", rank=3),
    Column("df", "Degrees of freedom: prompts less 1.", "count", rank=6),
    *_interval("ci", "95 % interval (paired t test). All those of several systems hold together; `robin gate` has one alone.",
               "signed"),
    Column("p", "Two-sided p value of the paired t test.", "number"),
    Column("p_adjusted", "The same with Holm's correction for several systems.", "number"),
    Column("p_wilcoxon", "With `--details`: two-sided p value of Wilcoxon's signed-rank test.", "number", "p Wilcoxon", rank=3),
    Column("effect_size", "Cohen's d, paired: difference / standard deviation of the differences.", "signed", "d", rank=2),
    Column("noise_share", "The judge's noise, as a share of the variance.", "number"),
    Column("prompts_needed", "Prompts in all that would settle it 4 times in 5, at this difference; empty if it is settled.",
           "count"),
    Column("widened", "Whether the interval is wider than Student's: few prompts carry the variance, or `--robust`.", "flag"),
    Column("corrected_difference", f"{_PEOPLE}the difference.", "signed", "corrected", hide="empty"),
    *_interval("corrected", f"{_PEOPLE}95 % interval; those of several differences hold together.", "signed", "corrected 95 %",
               1, "empty"),
    Column("n_labels", "People's labels.", "count", "labels", rank=5, hide="zero"),
    Column("which", "The two systems, by their letters.", "text", " ", for_people=True),
    Column("p_text", "p_adjusted in the style of papers.", "word", "p", rank=1, for_people=True),
    Column("better", "Which of the two is better.", "name", for_people=True),
    Column("by_people", "The better one by people's labels.", "name", hide="empty", for_people=True),
), terminal=("attribute", "which", "n_prompts", "mean_a", "mean_b", "difference", "std_error", "df", "ci_low", "effect_size",
             "p_text", "p_wilcoxon", "better", "corrected_difference", "corrected_low", "by_people", "n_labels"))

SYSTEMS = declared("systems", "Systems beside the one with the highest mean", "attribute and system, the highest mean first", (
    Column("attribute", "The attribute.", "name"),
    Column("system", "The system.", "name"),
    Column("n_prompts", "Prompts that it answered.", "count", "prompts"),
    Column("mean", "The mean over these, each with the same weight.", "number"),
    Column("difference", "Its difference from the best one, over the prompts that both answered.", "signed"),
    *_interval("difference", "95 % interval, as of `robin compare`.", "signed"),
    Column("p_adjusted", "Two-sided p value; Holm's correction for several systems.", "number", "p"),
), terminal=("attribute", "system", "n_prompts", "mean", "difference", "difference_low", "p_adjusted"))

SIDE_BY_SIDE = declared("side-by-side", "Two runs side by side", "pair or prompt, and attribute", (
    Column("attribute", "The attribute.", "name"),
    Column("a", "Mean rating in run A.", "number", "A"),
    Column("b", "Mean rating in run B.", "number", "B"),
    Column("difference", "Difference of the mean ratings.", "signed", "A − B"),
    *_interval("ci", "95 % interval of the difference.", "signed", "interval"),
    Column("n_a", "Ratings in run A.", "count", "ratings A"),
    Column("n_b", "Ratings in run B.", "count", "ratings B"),
    Column("differ", "Whether the interval leaves out 0.", "flag"),
), terminal=("attribute", "a", "b", "difference", "ci_low", "n_a", "n_b", "differ"))

REQUIREMENTS = declared("gate", "What a run was required to meet: `robin gate`", "requirement, in their order", (
    Column("requirement", "The requirement."),
    Column("verdict", "pass, fail or inconclusive."),
    Column("estimate", "The value.", "number"),
    *_interval("ci", "Its interval at the error rate, for this requirement alone.", "number", "interval"),
    Column("n_pairs", "Pairs.", "count", "pairs", rank=2),
    Column("n_prompts", "Their prompts.", "count", "prompts", rank=3),
    Column("n_unrated", "Pairs without a rating.", "count", "unrated", rank=4, hide="zero"),
    Column("why", "Both in words, and what would settle it.", "name", rank=1),
), terminal=("requirement", "verdict", "estimate", "ci_low", "n_pairs", "n_prompts", "n_unrated", "why"))

TRIAL = declared("try", "Judges and wordings: `robin try`", "judge, template and rubric, the best first", (
    Column("judge", "The judge.", "name"),
    Column("template", "Its template, if it was named.", "name", hide="empty"),
    Column("rubric", "Its rubric, if it was named.", "name", hide="empty"),
    Column("n_pairs", "Pairs that it rated; fewer if it was dropped as worse.", "count", "pairs"),
    Column("agreement", "Correlation with people's ratings, or with judges of other families; an answer without a rating "
           "agrees with nothing.", "number"),
    *_interval("agreement", "95 % interval, over prompts.", "number"),
    Column("difference", "Its difference from the best, on the same prompts.", "signed", rank=1),
    *_interval("difference", "95 % interval of the difference.", "signed", rank=1),
    Column("noise", "Standard deviation of its ratings of one pair.", "number", rank=4),
    Column("unparsed", "Share of its answers without a rating.", "number", rank=3),
    Column("usd_per_1000", "US dollars for 1,000 pairs, one call each.", "number", "$ / 1,000", rank=2, hide="empty"),
    Column("seconds_per_1000", "Seconds for 1,000 pairs, one call after another.", "count", "s / 1,000", rank=5),
), terminal=("judge", "template", "rubric", "n_pairs", "agreement", "agreement_low", "difference", "difference_low", "noise",
             "unparsed", "usd_per_1000", "seconds_per_1000"))

RUNS = declared("runs", "The runs in a folder: `robin runs`", "run, the oldest first", (
    Column("run", "Its folder."),
    Column("state", "working, waiting, stopped, finished or damaged."),
    Column("spent", "Calls spent.", "count"),
    Column("budget", "Calls it may spend.", "count"),
    Column("budget_usd", "US dollars, if they are its budget.", "number"),
    Column("ratings", "Ratings it has.", "count"),
    Column("pairs", "Pairs of its data.", "count"),
    Column("attributes", "The attributes.", "name"),
    Column("judge", "The judge.", "name"),
    Column("scheduler", "The scheduler.", "name"),
    Column("data", "Its data.", "name"),
    Column("created_at", "When it was made."),
    Column("error", "Why it is damaged.", "name"),
    Column("calls", "Calls spent, of how many or for how much.", "word", for_people=True),
    Column("by", "Who judges, and the scheduler; of a damaged run what is wrong.", "name", "judge", for_people=True),
), terminal=("run", "state", "calls", "by"))

RESULTS = declared("results", "The tables that a run can export: `robin results`", "table", (
    Column("what", "The word for `--what`."),
    Column("rows", "Its rows.", "count"),
    Column("holds", "Its content.", "name"),
    Column("row", "A row's content.", "name", "a row for each"),
), terminal=("what", "rows", "holds"))

SIMULATED = declared("simulate", "Errors of simulated runs: `robin simulate`", "set of ratings, scheduler and budget", (
    Column("attribute", "The set of recorded ratings.", "name"),
    Column("scheduler", "The scheduler.", "name"),
    Column("budget", "Calls that a run may spend.", "count"),
    Column("what", "With `--pairwise`: the kind of error.", "name"),
    Column("asked_mean", "With `--pairwise`: share of comparisons asked.", "number"),
    Column("calls_mean", "Calls spent; with `--pairwise` and no `--decide`, per comparison asked.", "number"),
    Column("wce_mean", "Largest error of a pair, mean over runs.", "number"),
    Column("wce_std", "Its standard deviation.", "number"),
    Column("wce_sem", "Its standard error.", "number", rank=4),
    Column("wrong_mean", "Share of wrong results, mean over runs.", "number"),
    Column("wrong_sem", "Its standard error.", "number", rank=4),
    Column("likely_wrong_mean", "Share of decisions that is likely wrong, as a run states it, mean over runs.", "number"),
    Column("likely_wrong_sem", "Its standard error.", "number", rank=4),
    Column("calls_sem", "Standard error of the calls spent.", "number", rank=4),
    Column("certified_mean", "With `--certify`: share of decisions certified.", "number", rank=2),
    Column("certified_wrong_mean", "With `--certify`: share of certified decisions that are wrong.", "number", rank=2),
    Column("right_mean", "With a pool that has `right`: share of groups whose best is right.", "number"),
    Column("right_sem", "Its standard error.", "number", rank=4),
    Column("any_mean", "Share of runs with anything wrong.", "number", rank=3),
    Column("order_effect_mean", "The order effect, in probability.", "signed"),
    Column("runs", "Simulated runs.", "count", rank=5),
), terminal=("attribute", "scheduler", "budget", "what", "wce_mean", "wrong_mean", "wrong_sem", "right_mean", "right_sem",
             "likely_wrong_mean", "likely_wrong_sem", "calls_mean", "calls_sem", "certified_mean", "certified_wrong_mean",
             "any_mean", "wce_sem", "runs"))

_FIGURES = (
    Column("worst_error", "Expected error of the worst score.", "number"),
    Column("mean_error", "Average error of the scores.", "number"),
    Column("calls", "With `--decide`: calls spent on average; it may end sooner.", "number"),
    Column("wrong", "With `--decide`: share of wrong decisions.", "number"),
    Column("likely_wrong", "With `--decide`: share of decisions that is likely wrong, as a run states it.", "number"),
    Column("decisions", "With `--decide`: simulated decisions.", "count"),
)
PLANNED = declared("plan", "What budgets buy, simulated: `robin plan`", "budget, rising", (
    Column("budget", "Calls that a run may spend.", "count"),
    Column("cost_usd_at_least", "US dollars if answers are empty; empty without a price.", "number"),
    Column("cost_usd_at_most", "US dollars if answers have `--max-tokens`.", "number"),
    Column("cost_usd_about", "US dollars with usual answers.", "number"),
    Column("within_max_cost", "Whether `--max-cost` pays for them; empty if answers decide.", "flag"),
    Column("seconds", "Seconds they take.", "number"),
    Column("calls_an_arm", "Calls per pair, attribute and judge.", "number"),
    *_FIGURES,
    *(replace(each, name=f"even_{each.name}", help="The same for an even spread.") for each in _FIGURES),
    Column("known_then", "What is known then, in words.", "name"),
))
# fmt: on

JUDGE_SCORES = replace(
    SCORES, name="judge-scores", says="The scores of each judge", row="pair, attribute and judge"
)
# fmt: off
TABLES = (
    SCORES, JUDGE_SCORES, COMPARISONS, RANKING, JUDGMENTS, AGREEMENT, CALIBRATION, PREFERENCES, SUMMARY, LABELS_WANTED,
    JUDGE_QUALITY, DISAGREEMENTS, DECISIONS, DIFFERENCES, SYSTEMS, REQUIREMENTS, TRIAL, RUNS, RESULTS, SIMULATED, PLANNED,
)
# fmt: on
"""All tables, in the order of docs/columns.md."""
