"""The words of the report. configs/GLOSSARY.md has the same table: a test compares them."""

from html import escape

WORDS = {
    "arm": "one rule with its own search and its own sequence of models. All arms of a run see the "
    "same events and the same draws",
    "champion": "the model of an arm after a cycle: that of the winning instance. The next cycle "
    "starts from it",
    "chunk": "the events of one cycle",
    "draw": "a setting picked at random from its ranges or around the last "
    "champion's, for one instance; draws x/÷30 reach from a 30th of the "
    "middle to 30 times it",
    "dual ascent": "the paper's way to bound vectors: each has a price, mu, which "
    "rises while the vector is too long and pulls it back. `entropic` "
    "and `euclidean` are its two forms",
    "dual step": "the step size of the dual variable mu, which pulls a vector back",
    "gain": "by how much a log-loss is lower than that of a constant CTR, in percent; 0 is a model "
    "that knows only the CTR",
    "instance": "one training of one setting on one chunk",
    "k": "the bound rho as a multiple of rho0, so that one number fits models of any size",
    "lift": "by how much the served log-loss of one arm is lower than that of another on the same "
    "events, in percent",
    "line": "with `select: lineages`: one setting with its own model, from cycle to cycle. With "
    "`select: champion` there are no lines. Of a published model: its run "
    "and arm",
    "mean of lines": "with `serve: {mean_of: 4}`: what is served is one model, whose logits are "
    "the mean of those of the four best lines. Its members are those lines",
    "point of gain": "a difference of one between two gains, which are in percent: "
    "from a gain of 10% to one of 12% are two points",
    "price": "mu of a vector: how hard its bound pulls it back. It rises while the vector is too "
    "long, and falls otherwise",
    "regret": "by how much the served log-loss is worse than that of the best fixed setting of the "
    "run, chosen in hindsight; below 0 it is better",
    "retained": "did not diverge. The retained fraction is retained / (retained + diverged)",
    "rho": "the bound on the mean square of a vector's entries; rho0 is the paper's value for a "
    "model of this size",
    "rule": "how vectors are bounded: l2, entropic and others",
    "served": "of the champion of the cycle before, or of the mean of lines that was served, on "
    "the events of this cycle before they are trained on: what users would have seen",
    "setting": "the hyper-parameters of an instance: eta0, alpha, beta and those of the rule",
    "tau": "the size of an entry at which an instance counts as diverged",
    "twins": "a design of the simulated A/B test: both arms serve the same users, "
    "each in its own copy of the market, so that only the arms differ",
    "useful": "retained, with a better log-loss than predicting the CTR of the chunk for every "
    "event",
}


def glossary() -> str:
    """The words and their meanings, as HTML; `#words` is their anchor."""
    rows = "".join(
        f"<dt>{escape(word)}</dt><dd>{escape(meaning.replace('`', ''))}.</dd>"
        for word, meaning in WORDS.items()
    )
    return f'<h2 id="words">Words</h2><dl class="words">{rows}</dl>'
