// Plays the stories of the page: which vectors grew at which event, beside which others, and the twin.
"use strict";

const LANE = { left: 92, right: 18, top: 8, bottom: 34, step: 17, deep: 6 };
const PLAY_MS = 12000;
const still = matchMedia("(prefers-reduced-motion: reduce)");
const comma = (number) => number.toLocaleString("en");
const short = (norm) => (norm === null ? "not finite" : String(Number(norm.toPrecision(3))));
const sizeOf = (norm, story) => (norm === null ? story.tau : Math.min(norm, story.tau));

/** One graph: vectors at the event at which they grew, in the lane of their feature. */
class StoryGraph {
  constructor(player, home, key, title) {
    Object.assign(this, { player, home, key });
    const head = document.createElement("h4");
    head.textContent = title;
    this.svg = node("svg", { tabindex: 0, role: "img", class: "graph" });
    home.append(head, this.svg);
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => player.choose(null));
    this.svg.addEventListener("blur", () => player.choose(null));
    this.svg.addEventListener("keydown", (event) => this.onKey(event));
  }

  /** Where each vector is: features have lanes, and vectors that would overlap stand below one another. */
  place(width) {
    const { story } = this.player;
    const [first, last] = [story.frames[0], story.frames.at(-1)];
    const most = Math.max(last - first, 1);
    const near = Math.max(most / 50, 1); // from here on to the end the axis is nearly linear
    const place = scaleOf({ log: true }, [most + near, near], LANE.left, width - LANE.right);
    this.sx = (event) => place(last - event + near);
    let right = Infinity;
    this.ticks = [0, 1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7].flatMap((m) => [m, 3 * m]).slice(1)
      .filter((before) => before <= most && right - this.sx(last - before) > 44 && (right = this.sx(last - before)));
    const lanes = new Map(story.vectors.map((vector) => [vector.feature, []]));
    this.spots = [];
    let top = LANE.top;
    for (const [feature, ends] of lanes) {
      story.vectors.forEach((vector, i) => {
        if (vector.feature !== feature) return;
        const x = this.sx(Math.max(vector.event, first));
        let row = ends.findIndex((end) => x - end > LANE.step);
        if (row < 0) row = ends.length < LANE.deep ? ends.length : i % LANE.deep;
        ends[row] = x;
        this.spots[i] = { x, y: top + LANE.step * (row + 0.5) + 3 };
      });
      lanes.set(feature, { top, bottom: (top += LANE.step * ends.length + 6) });
    }
    this.bottom = top;
    return lanes;
  }

  draw(width = this.home.clientWidth) {
    const { story } = this.player;
    const lanes = this.place(width);
    this.svg.replaceChildren();
    this.svg.setAttribute("viewBox", `0 0 ${width} ${this.bottom + LANE.bottom}`);
    const ends = { x1: LANE.left - 8, x2: width - LANE.right };
    for (const [feature, lane] of lanes) {
      node("line", { class: "grid", ...ends, y1: lane.bottom, y2: lane.bottom }, this.svg);
      node("text", { x: LANE.left - 12, y: (lane.top + lane.bottom) / 2 + 4, "text-anchor": "end" }, this.svg, feature.slice(0, 13));
    }
    for (const tick of this.ticks)
      node("text", { x: this.sx(story.frames.at(-1) - tick), y: this.bottom + 16, "text-anchor": "middle" }, this.svg, comma(tick));
    node("text", { x: width - LANE.right, y: this.bottom + 30, "text-anchor": "end" }, this.svg, "events before the end");
    this.now = node("line", { class: "cursor", y1: LANE.top, y2: this.bottom }, this.svg);
    this.links = this.key === "norms" ? story.vectors.flatMap((vector, i) => vector.sources.map((source) => this.link(source, i))) : [];
    this.dots = this.spots.map(({ x, y }, i) =>
      node("circle", { class: i === story.end ? "vector last" : "vector", cx: x.toFixed(1), cy: y }, this.svg));
    const named = new Set([0, ...(story.end === null ? [] : [story.end])]);
    this.names = [...named].map((i) => this.label(i, width));
    this.show();
  }

  link(source, target) {
    const [a, b] = [this.spots[source], this.spots[target]];
    const middle = (a.x + b.x) / 2;
    const line = node("path", { class: "link", d: `M${a.x.toFixed(1)} ${a.y}C${middle.toFixed(1)} ${a.y} ${middle.toFixed(1)} ${b.y} ${b.x.toFixed(1)} ${b.y}` }, this.svg);
    return { source, target, line };
  }

  label(i, width) {
    const { x, y } = this.spots[i];
    const left = x > width / 2;
    const place = { class: "label", x: left ? x - 13 : x + 13, y: y + 4, "text-anchor": left ? "end" : "start" };
    return { i, text: node("text", place, this.svg, this.player.story.vectors[i].value.slice(0, 24) || "(missing)") };
  }

  /** The sizes, colours and lines of the moment. */
  show() {
    const { story, frame, chosen } = this.player;
    const event = story.frames[frame];
    const x = this.sx(event).toFixed(1);
    this.now.setAttribute("x1", x);
    this.now.setAttribute("x2", x);
    this.dots.forEach((dot, i) => {
      const norm = story.vectors[i][this.key][frame];
      dot.setAttribute("r", (2 + 8 * (sizeOf(norm, story) / story.tau)).toFixed(2));
      dot.classList.toggle("grown", norm === null || norm >= story.level);
      dot.classList.toggle("chosen-one", i === chosen);
    });
    for (const { source, target, line } of this.links) {
      line.classList.toggle("there", story.vectors[target].event <= event);
      line.classList.toggle("chosen-one", source === chosen || target === chosen);
    }
    for (const { i, text } of this.names) text.classList.toggle("there", story.vectors[i].event <= event);
  }

  point(event) {
    const frame = this.svg.getBoundingClientRect();
    const ratio = this.svg.viewBox.baseVal.width / frame.width;
    const [px, py] = [(event.clientX - frame.left) * ratio, (event.clientY - frame.top) * ratio];
    const far = this.spots.map(({ x, y }) => Math.hypot(x - px, y - py));
    const nearest = far.indexOf(Math.min(...far));
    this.player.choose(far[nearest] < 14 ? nearest : null, event);
  }

  onKey(event) {
    const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") this.player.choose(null);
    if (!way) return;
    event.preventDefault();
    const { story, chosen } = this.player;
    const next = chosen === null ? 0 : clamp(chosen + way, 0, story.vectors.length - 1);
    const frame = this.svg.getBoundingClientRect();
    const ratio = frame.width / this.svg.viewBox.baseVal.width;
    const { x, y } = this.spots[next];
    this.player.choose(next, { clientX: frame.left + x * ratio, clientY: frame.top + y * ratio });
  }
}

/** A story with its slider, its button and both graphs. */
class StoryPlayer {
  constructor(story, number) {
    Object.assign(this, { story, chosen: null, frame: story.frames.length - 1 });
    this.home = document.getElementById(`story-${number}`);
    this.slider = this.home.querySelector("input");
    this.button = this.home.querySelector("button");
    this.told = this.home.querySelector("output");
    this.slider.max = this.slider.value = this.frame;
    this.slider.oninput = () => { this.pause(); this.to(Number(this.slider.value)); };
    this.button.onclick = () => this.press();
    const titles = [["norms", `${story.arm} (${story.rule})`], ["twin_norms", `its twin with ${story.twin.rule}`]];
    this.graphs = titles.map(([key, title]) => {
      const panel = document.createElement("div");
      panel.className = "panel";
      this.home.querySelector(".panels").append(panel);
      return new StoryGraph(this, panel, key, title);
    });
    still.addEventListener("change", () => this.pause());
    this.pause();
    this.draw();
  }

  draw(width) { for (const graph of this.graphs) graph.draw(width); this.to(this.frame); }

  to(frame) {
    this.frame = frame;
    this.slider.value = frame;
    const text = this.text();
    this.told.textContent = text;
    this.slider.setAttribute("aria-valuetext", text);
    for (const graph of this.graphs) {
      graph.show();
      graph.svg.setAttribute("aria-label", `${graph.home.firstChild.textContent}. ${text} Arrow keys name the vectors.`);
    }
  }

  text() {
    const { story, frame } = this;
    const event = story.frames[frame];
    const grown = story.vectors.filter((vector) => vector.event <= event).length;
    const [own, twin] = ["norms", "twin_norms"].map((key) =>
      story.vectors.map((vector) => vector[key][frame]).reduce((a, b) => (a === null || b === null ? null : Math.max(a, b))));
    return `Event ${comma(event)}: ${grown} of these ${story.vectors.length} vectors have grown. Largest ‖v‖∞ ${short(own)}, in the twin ${short(twin)}.`;
  }

  /** Shows what one vector is, and its lines; null: nothing. */
  choose(number, event) {
    this.chosen = number;
    for (const graph of this.graphs) graph.show();
    if (number === null) { tip.hidden = true; return; }
    const vector = this.story.vectors[number];
    const name = (one) => `${one.feature}=${one.value || "(missing)"}`;
    const beside = vector.sources.map((source) => `beside ${name(this.story.vectors[source])}`);
    const when = vector.event < 0 ? "large from the start" : `grew at event ${comma(vector.event)}`;
    const now = `now ${short(vector.norms[this.frame])}, in the twin ${short(vector.twin_norms[this.frame])}`;
    showTip([name(vector), when, ...beside.slice(0, 6), now].join("\n"), event);
    tip.panel = this;
  }

  /** Plays or pauses; for a reader who wants no motion it goes to the next growth. */
  press() {
    const last = this.story.frames.length - 1;
    if (still.matches) { this.to(this.frame === last ? 0 : this.next()); return; }
    if (this.timer) { this.pause(); return; }
    if (this.frame === last) this.to(0);
    this.button.textContent = "Pause";
    this.timer = setInterval(() => {
      this.to(this.frame + 1);
      if (this.frame === last) this.pause();
    }, clamp(PLAY_MS / last, 40, 400));
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.button.textContent = still.matches ? "Next growth" : "Play";
  }

  next() {
    const { frames, vectors } = this.story;
    const events = vectors.map((vector) => vector.event).filter((event) => event > frames[this.frame]);
    return events.length ? frames.indexOf(Math.min(...events)) : frames.length - 1;
  }
}

const players = JSON.parse(document.getElementById("stories").textContent)
  .map((story, number) => new StoryPlayer(story, number));
addEventListener("resize", () => requestAnimationFrame(() => players.forEach((player) => player.draw())));
addEventListener("beforeprint", () => players.forEach((player) => player.draw(350)));
addEventListener("afterprint", () => players.forEach((player) => player.draw()));
