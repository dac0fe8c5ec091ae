"use strict";
/* The dashboard. The server pushes a summary and one view; this file draws them.
   Every text becomes a text node: nothing that an object says is ever markup (and the page's policy forbids it). */

// Drawing

const OWN_STATE = new Set(["checked", "selected", "disabled", "open"]);

/** An element. Properties are attributes; `style` has custom properties. Children are nodes, texts, or lists of them. */
function h(tag, props, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "style") for (const [key, amount] of Object.entries(value)) made.style.setProperty(key, amount);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(
    ...children
      .flat(Infinity)
      .filter((each) => each !== null && each !== undefined && each !== false && each !== "")
      .map((each) => (each instanceof Node ? each : String(each))),
  );
  return made;
}

/** Makes a parent's children like those given, and keeps what is there: focus, selection and open parts stay. */
function patch(parent, wanted) {
  const old = [...parent.childNodes];
  wanted.forEach((next, at) => {
    const known = old[at];
    if (!known) parent.append(next);
    else if (alike(known, next)) update(known, next);
    else parent.replaceChild(next, known);
  });
  for (const left of old.slice(wanted.length)) left.remove();
}

function alike(known, next) {
  return (
    known.nodeType === next.nodeType &&
    known.nodeName === next.nodeName &&
    (known.nodeType !== 1 || known.getAttribute("data-key") === next.getAttribute("data-key"))
  );
}

function update(known, next) {
  if (known.nodeType !== 1) {
    if (known.data !== next.data) known.data = next.data;
    return;
  }
  if (known.hasAttribute("data-keep")) return;
  for (const { name } of [...known.attributes]) {
    if (!next.hasAttribute(name) && name !== "style" && !OWN_STATE.has(name)) known.removeAttribute(name);
  }
  for (const { name, value } of [...next.attributes]) {
    if (name !== "style" && known.getAttribute(name) !== value) known.setAttribute(name, value);
  }
  if (known.style.cssText !== next.style.cssText) known.style.cssText = next.style.cssText;
  patch(known, [...next.childNodes]);
}

// Words and numbers

const round = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const money = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const one = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const DASH = "–";
let clockSkew = 0;

const now = () => Date.now() + clockSkew;
const price = (of) => (of ? `${money.format(of.perHour)} ${of.currency}` : DASH);
const plural = (count, noun) => `${round.format(count)} ${noun}${count === 1 ? "" : "s"}`;
const known = (value, unit = "") => (value === null || value === undefined ? DASH : `${one.format(value)}${unit}`);

function span(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 120) return `${s} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

/** A time that grows old, or comes near. One timer keeps all of them true. */
function ago(at) {
  return at ? h("time", { datetime: at, "data-ago": at, title: at }, agoText(at)) : "";
}
function until(at) {
  return at ? h("time", { class: "count", datetime: at, "data-until": at, title: at }, untilText(at)) : "";
}
function held(at) {
  return h("time", { datetime: at, "data-held": at, title: `since ${at}` }, heldText(at));
}
const heldText = (at) => `for ${span((now() - Date.parse(at)) / 1000)}`;
const agoText = (at) => `${span((now() - Date.parse(at)) / 1000)} ago`;
const untilText = (at) => (Date.parse(at) > now() ? `in ${span((Date.parse(at) - now()) / 1000)}` : "now");

function tick() {
  for (const each of document.querySelectorAll("[data-ago]")) setText(each, agoText(each.dataset.ago));
  for (const each of document.querySelectorAll("[data-held]")) setText(each, heldText(each.dataset.held));
  for (const each of document.querySelectorAll("[data-until]")) setText(each, untilText(each.dataset.until));
}
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Parts that views share

const link = (path, ...children) => h("a", { href: path }, ...children);
const seg = encodeURIComponent;
const PATHS = {
  InferenceCluster: (_, name) => `#/cluster/${seg(name)}`,
  ModelDeployment: (ns, name) => `#/deployment/${seg(ns)}/${seg(name)}`,
  ModelService: (ns, name) => `#/service/${seg(ns)}/${seg(name)}`,
  ModelCache: (ns, name) => `#/caches?q=${seg(`${ns}/${name}`)}`,
};
const SHORT = {
  InferenceCluster: "cluster",
  ModelDeployment: "deployment",
  ModelReplica: "replica",
  ModelEndpoint: "endpoint",
  ModelService: "service",
  ModelCache: "cache",
  TelemetryDestination: "telemetry",
  InferenceGateway: "gateway",
  InferenceClass: "class",
};

function objectLink(kind, namespace, name) {
  const shown = namespace ? `${namespace}/${name}` : name;
  return PATHS[kind] ? link(PATHS[kind](namespace, name), shown) : shown;
}

const state = (name) => h("span", { class: `state ${STATES.includes(name) ? name : "Other"}` }, name);
const STATES = ["NotReady", "Unknown", "Deleting", "Ready"];
const PARTS = [
  ["used", "used"],
  ["others", "by others"],
  ["missing", "missing"],
  ["lost", "lost"],
  ["free", "free"],
];

function health(of) {
  return [state(of.state), of.why ? h("p", { class: "why" }, of.why) : null];
}

function loadWords(load) {
  return PARTS.filter(([part]) => load[part])
    .map(([part, word]) => `${round.format(load[part])} ${word}`)
    .join(", ");
}

function loadBar(load) {
  const used = load.used === null ? ", used not known" : "";
  return h(
    "div",
    { class: "bar", role: "img", "aria-label": `${plural(load.devices, "device")}: ${loadWords(load)}${used}` },
    PARTS.filter(([part]) => load[part]).map(([part]) => h("span", { class: part, style: { "--n": load[part] } })),
  );
}

function legend(load) {
  return h(
    "p",
    { class: "legend" },
    PARTS.filter(([part]) => load[part] || part === "used" || part === "free").map(([part, word]) =>
      h("span", {}, h("i", { class: part }), `${load[part] === null ? DASH : round.format(load[part])} ${word}`),
    ),
  );
}

function deviceNode(node, big) {
  const counts = { used: 0, others: 0, missing: 0, lost: 0, ...node };
  counts.free = node.devices - counts.used - counts.others - counts.missing - counts.lost;
  const words = `${node.name || "node"}: ${loadWords(counts) || "no devices"}`;
  const style = { "--n": node.devices };
  for (const part of ["used", "others", "missing", "lost"]) style[`--${part}-n`] = counts[part];
  return h("li", { class: big ? "node big" : "node", role: "img", "aria-label": words, title: words, style });
}

/** Columns are [title, class]; a row is cells, the first its name. On narrow screens rows become blocks. */
function table(caption, note, columns, rows) {
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      { class: "stack" },
      h("caption", {}, caption, note ? h("span", { class: "quiet" }, note) : null),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map(([title, kind]) => h("th", { scope: "col", class: kind }, title)),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((cells) =>
          h(
            "tr",
            {},
            cells.map((cell, at) => {
              const [title, kind] = columns[at];
              return at === 0
                ? h("th", { scope: "row", class: kind }, cell)
                : h("td", { class: kind, "data-label": title }, cell);
            }),
          ),
        ),
      ),
    ),
  );
}

function head(title, crumb, ...more) {
  return h(
    "div",
    { class: "head" },
    crumb ? h("p", { class: "crumb" }, crumb) : null,
    h("div", { class: "title" }, h("h1", {}, title), more),
  );
}

function card(title, ...children) {
  return h("section", { class: "card" }, title ? h("h2", {}, title) : null, children);
}

function codeBlock(lines) {
  return [
    h("pre", { class: "code", tabindex: 0 }, lines.join("\n")),
    h("p", {}, h("button", { type: "button", class: "copy", "data-act": "copy" }, "Copy")),
  ];
}

function eventList(events) {
  if (!events.length) return h("p", { class: "quiet" }, "Nothing happened in the last hour.");
  return h(
    "ol",
    { class: "timeline" },
    events.map((each) =>
      h(
        "li",
        { class: each.type === "Warning" ? "Warning" : "Normal" },
        h(
          "div",
          { class: "what" },
          h("span", { class: "reason" }, each.reason),
          each.type === "Warning" ? h("span", { class: "tag warn" }, "warning") : null,
          h(
            "span",
            { class: "small" },
            `${SHORT[each.objectKind] || each.objectKind} `,
            objectLink(each.objectKind, each.namespace, each.name),
          ),
          h("span", { class: "quiet small" }, ago(each.at), each.count > 1 ? `, ${each.count} times` : ""),
        ),
        h("p", { class: "why" }, each.message),
      ),
    ),
  );
}

function activityList(items) {
  const bad = new Set(["Failed", "Halted"]);
  return h(
    "ul",
    { class: "list" },
    items.map((each) =>
      h(
        "li",
        {},
        h(
          "div",
          { class: "row" },
          h(
            "span",
            { class: "title" },
            h("span", { class: `tag ${each.kind === "Failover" || bad.has(each.state) ? "bad" : "warn"}` }, each.kind),
            objectLink(each.objectKind, each.namespace, each.name),
          ),
          each.until
            ? h("span", { class: "small" }, UNTIL[each.kind] || "next step ", until(each.until))
            : h("span", { class: "quiet small" }, each.state),
        ),
        each.percent === null
          ? null
          : h("progress", {
              max: 100,
              value: each.percent,
              "aria-label": `${each.kind} of ${each.name}: ${each.percent} percent`,
            }),
        h("p", { class: "why" }, each.message),
      ),
    ),
  );
}
const UNTIL = { Failover: "replaced ", Drain: "deadline ", Rollout: "next step " };

function nextSteps(steps) {
  return steps.map((step) =>
    h(
      "section",
      { class: "card empty" },
      h("h2", {}, step.title),
      step.commands.map((command) => h("div", {}, codeBlock([command]))),
    ),
  );
}

function treeNode(node, pods, root) {
  const own = node.kind === "ModelReplica" ? pods.filter((pod) => pod.replica === node.name) : [];
  const below = [
    ...own.map((pod) =>
      h(
        "li",
        {},
        h(
          "div",
          { class: "leaf" },
          h("span", { class: "kind" }, pod.pods === 1 ? "pod" : `${pod.pods} pods`),
          `on ${pod.node}`,
          h(
            "span",
            { class: "quiet small" },
            `pool ${pod.pool}, ${plural(pod.devices, "device")}${pod.pods === 1 ? "" : " each"}`,
          ),
        ),
      ),
    ),
    ...(node.children || []).map((child) => treeNode(child, pods, false)),
  ];
  return h(
    "li",
    {},
    h(
      "div",
      { class: "leaf" },
      state(node.state),
      h("span", { class: "kind" }, SHORT[node.kind] || node.kind),
      h("strong", {}, root ? node.name : objectLink(node.kind, node.namespace, node.name)),
      node.since ? h("span", { class: "quiet small" }, held(node.since)) : null,
      node.why ? h("p", { class: "why" }, node.why) : null,
    ),
    below.length ? h("ul", {}, below) : null,
  );
}

function treeCard(title, tree, omitted, pods = []) {
  return card(
    title,
    h("ul", { class: "tree" }, treeNode(tree, pods, true)),
    omitted
      ? h("p", { class: "quiet small" }, `${plural(omitted, "more")} not shown; those that are not ready come first.`)
      : null,
  );
}

/** A field for words, and chips for the values of one parameter: [value, text]; the empty value is all. */
function filterBar(label, title, parameter, chips) {
  const query = route.query;
  return h(
    "div",
    { class: "filter", role: "search" },
    h("input", {
      type: "search",
      id: "filter",
      "data-act": "filter",
      "aria-label": `Filter ${label}`,
      placeholder: `Filter ${label}   /`,
      value: query.q || "",
      autocomplete: "off",
      spellcheck: "false",
      maxlength: 200,
    }),
    h(
      "div",
      { class: "chips", role: "group", "aria-label": title },
      chips.map(([value, text]) =>
        h(
          "a",
          {
            href: address(route.path, { ...query, [parameter]: value, offset: "" }),
            "aria-current": (query[parameter] || "") === value ? "true" : null,
          },
          text,
        ),
      ),
    ),
  );
}

function stateFilter(page, label) {
  const counts = {
    "": page.states.total,
    NotReady: page.states.notReady,
    Unknown: page.states.unknown,
    Deleting: page.states.deleting,
    Ready: page.states.ready,
  };
  const chips = Object.entries(counts)
    .filter(([name, count]) => !name || count || route.query.state === name)
    .map(([name, count]) => [name, `${name || "All"} ${round.format(count)}`]);
  return filterBar(label, "State", "state", chips);
}

function pager(page) {
  if (page.total <= page.limit && !page.offset) return null;
  const step = (offset, text, act) =>
    h("a", { href: address(route.path, { ...route.query, offset: offset || "" }), "data-act": act }, text);
  return h(
    "nav",
    { class: "pager", "aria-label": "Pages" },
    page.offset > 0 ? step(Math.max(0, page.offset - page.limit), "← Before", "before") : null,
    `${round.format(Math.min(page.offset + 1, page.total))}–${round.format(Math.min(page.offset + page.limit, page.total))} of ${round.format(page.total)}`,
    page.offset + page.limit < page.total ? step(page.offset + page.limit, "After →", "after") : null,
  );
}

function nothing(page, what, command) {
  if (page.rows.length) return null;
  if (route.query.q || route.query.state || route.query.type)
    return h(
      "section",
      { class: "card empty" },
      h("p", {}, `No ${what} matches the filter.`),
      link(`#${route.path}`, "Show all"),
    );
  return h(
    "section",
    { class: "card empty" },
    h("h2", {}, `There is no ${what} yet.`),
    h("div", {}, codeBlock([command])),
  );
}

// Views

function figure(label, value, note, wide) {
  return h(
    "section",
    { class: `card figure ${wide ? "wide" : ""}` },
    h("h2", { class: "label" }, label),
    h("p", { class: "value" }, value),
    h("div", { class: "note" }, note),
  );
}

function countsNote(counts) {
  const parts = [
    ["notReady", "not ready"],
    ["unknown", "unknown"],
    ["deleting", "deleting"],
  ].filter(([part]) => counts[part]);
  if (!parts.length) return counts.total ? state("Ready") : "";
  return parts.map(([part, word]) => h("span", {}, `${round.format(counts[part])} ${word}`));
}

function drawOverview(page) {
  const s = summary;
  const share = (counts) => [round.format(counts.ready), h("small", {}, ` of ${round.format(counts.total)} ready`)];
  return [
    head("Fleet"),
    ...nextSteps(page.next),
    s.clusters.total
      ? h(
          "div",
          { class: "figures" },
          figure("Clusters", share(s.clusters), countsNote(s.clusters)),
          figure("Replicas", share(s.replicas), countsNote(s.replicas)),
          figure("Services", share(s.services), countsNote(s.services)),
          figure(
            "Price per hour",
            [s.price ? money.format(s.price.perHour) : DASH, h("small", {}, s.price ? ` ${s.price.currency}` : "")],
            s.price ? "all nodes, used or not" : "not every class has a price in one currency",
          ),
        )
      : null,
    s.load.devices
      ? card(
          "Devices",
          h(
            "div",
            { class: "row" },
            h("p", { class: "figure" }, h("span", { class: "value" }, round.format(s.load.devices))),
            legend(s.load),
          ),
          loadBar(s.load),
          table(
            "",
            "",
            [
              ["Class"],
              ["Use", "full"],
              ["Devices", "num"],
              ["Used", "num"],
              ["Free", "num"],
              ["Clusters", "num"],
              ["Nodes", "num"],
              ["Price/h", "num"],
            ],
            page.classes.map((each) => [
              each.className,
              loadBar(each.load),
              round.format(each.load.devices),
              known(each.load.used),
              round.format(each.load.free),
              round.format(each.clusters),
              round.format(each.nodes),
              price(each.price),
            ]),
          ),
        )
      : null,
    s.clusters.total
      ? h(
          "div",
          { class: "grid wide-left" },
          h(
            "div",
            { class: "list" },
            card(
              "Now",
              page.activities.length
                ? activityList(page.activities)
                : h("p", { class: "quiet" }, "No roll-out, drain, failover, staging or upgrade is under way."),
            ),
            card(
              page.problemsTotal ? `Not ready (${round.format(page.problemsTotal)})` : "Not ready",
              page.problems.length
                ? h(
                    "ul",
                    { class: "list" },
                    page.problems.map((each) =>
                      h(
                        "li",
                        {},
                        h(
                          "div",
                          { class: "row" },
                          h(
                            "span",
                            {},
                            h("span", { class: "quiet small" }, `${SHORT[each.objectKind]} `),
                            objectLink(each.objectKind, each.namespace, each.name),
                          ),
                          state(each.state),
                        ),
                        each.why ? h("p", { class: "why" }, each.why) : null,
                      ),
                    ),
                  )
                : h("p", { class: "quiet" }, "Everything is ready."),
            ),
          ),
          card("Events", eventList(page.events), h("p", { class: "small" }, link("#/events", "All events"))),
        )
      : null,
    telemetryCard(page.telemetry),
  ];
}

function telemetryCard(rows) {
  if (!rows.length) return null;
  return card(
    null,
    table(
      "Telemetry",
      "clusters whose collector runs",
      [["Destination"], ["State", "full"], ["Sinks", "num"], ["Clusters", "num"]],
      rows.map((each) => [
        each.name,
        health(each.health),
        round.format(each.sinks),
        `${round.format(each.sending)} of ${round.format(each.clusters)}`,
      ]),
    ),
  );
}

function clusterTags(c) {
  return [
    c.cordoned ? h("span", { class: "tag warn" }, "cordoned") : null,
    c.drain ? h("span", { class: "tag warn" }, "drain") : null,
    c.marks.map((mark) => h("span", { class: "tag warn" }, mark)),
    c.taints.map((taint) => h("span", { class: "tag" }, taint)),
    Object.entries(c.labels).map(([key, value]) => h("span", { class: "tag" }, `${key}=${value}`)),
  ];
}

function poolPart(map, big) {
  const load = map.pool.load;
  return h(
    "div",
    { class: "pool" },
    h(
      "div",
      { class: "row" },
      h("h3", {}, map.pool.pool),
      h(
        "span",
        { class: "quiet small" },
        `${map.pool.className}, ${plural(map.pool.nodes, "node")}, ${price(map.pool.price)}/h`,
      ),
    ),
    map.nodes.length
      ? h(
          "ul",
          { class: "nodes", "aria-label": `Nodes of ${map.pool.pool}` },
          map.nodes.map((node) => deviceNode(node, big)),
        )
      : loadBar(load),
    h(
      "p",
      { class: "small quiet" },
      `${loadWords(load) || "no devices"} of ${round.format(load.devices)}`,
      load.used === null ? "; used is not known: devices are shared" : "",
      map.omitted && map.nodes.length ? `; ${plural(map.omitted, "node")} more` : "",
    ),
  );
}

function drawFleet(page) {
  return [
    head("Clusters", null),
    stateFilter(page, "clusters by name, label, class, pool or reason"),
    page.rows.length ? legendKey() : null,
    nothing(page, "cluster", "modelplane apply -f examples/quickstart"),
    h(
      "div",
      { class: "grid cards" },
      page.rows.map((c) =>
        h(
          "section",
          { class: `card cluster ${c.health.state}`, "data-key": c.name },
          h(
            "div",
            { class: "row" },
            h("h2", {}, link(PATHS.InferenceCluster("", c.name), c.name)),
            state(c.health.state),
          ),
          c.health.why ? h("p", { class: "why" }, c.health.why) : null,
          h("div", { class: "tags" }, clusterTags(c)),
          c.pools.map((pool) => poolPart(pool, false)),
          h(
            "p",
            { class: "row small quiet" },
            h("span", {}, plural(c.replicas, "replica")),
            h("span", {}, `${price(c.price)} per hour`),
          ),
        ),
      ),
    ),
    pager(page),
  ];
}

const legendKey = () =>
  h(
    "p",
    { class: "legend" },
    h("span", {}, "One box is a node, one cell a device:"),
    PARTS.map(([part, word]) => h("span", {}, h("i", { class: part }), word)),
  );

function drawCluster(page) {
  const c = page.cluster;
  const named = c.pools.flatMap((map) => map.nodes.filter((node) => node.name).map((node) => [map.pool.pool, node]));
  return [
    head(c.name, link("#/fleet", "Clusters"), state(c.health.state), h("div", { class: "tags" }, clusterTags(c))),
    c.health.why ? h("p", { class: "why" }, c.health.why) : null,
    c.drain ? card("Drain", h("p", {}, c.drain)) : null,
    card(
      "Pools",
      legendKey(),
      c.pools.map((pool) => poolPart(pool, true)),
      h(
        "p",
        { class: "row small quiet" },
        h("span", {}, page.version ? `Kubernetes ${page.version}` : ""),
        h("span", {}, `${price(c.price)} per hour`),
      ),
    ),
    h(
      "div",
      { class: "grid wide-left" },
      treeCard(`Replicas (${round.format(c.replicas)})`, page.tree, page.omitted),
      card("Events", eventList(page.events)),
    ),
    page.faulty.length
      ? card(
          null,
          table(
            "Faulty devices",
            "replicas on them move once their successors serve",
            [["Replica"], ["What is wrong", "full"]],
            page.faulty.map((each) => [each.replica ? `${each.namespace}/${each.replica}` : DASH, each.message]),
          ),
        )
      : null,
    page.software ? softwareCard(page.software) : null,
    conditionCard(page.conditions),
    named.length
      ? card(
          null,
          table(
            "Nodes",
            "those that the status names: pods share them",
            [["Node"], ["Pool"], ["Used", "num"], ["Pods", "full"]],
            named.map(([pool, node]) => [
              node.name,
              pool,
              `${(node.used || 0) + (node.others || 0)} of ${node.devices}`,
              (node.pods || []).map((pod) =>
                h(
                  "div",
                  { class: "small" },
                  `${pod.pods} × ${plural(pod.devices, "device")}: `,
                  pod.replica ? `${pod.namespace}/${pod.replica}` : "not Modelplane's",
                ),
              ),
            ]),
          ),
        )
      : null,
  ];
}

function softwareCard(of) {
  const settled = of.phase === "UpToDate";
  return card(
    "Software",
    h(
      "p",
      { class: "row" },
      h("span", { class: settled ? "tag good" : "tag warn" }, of.phase || DASH),
      h("span", { class: "quiet small" }, `release ${of.release || DASH}${of.wave === undefined ? "" : `, wave ${of.wave}`}`),
    ),
    of.why ? h("p", { class: "why" }, of.why) : null,
    h("p", { class: "quiet small" }, "Every cluster, in the order of the upgrade:"),
    codeBlock([`modelplane explain cluster ${of.cluster}`]),
  );
}

function conditionCard(rows) {
  if (!rows.length) return null;
  return card(
    null,
    table(
      "Conditions",
      "",
      [["Condition"], ["Status", "tight"], ["Reason", "tight"], ["Since", "tight"], ["Message", "full"]],
      rows.map((each) => [
        each.type,
        h("span", { class: each.status === "False" ? "tag bad" : "tag" }, each.status),
        each.reason,
        ago(each.since) || DASH,
        each.message,
      ]),
    ),
  );
}

function traffic(of) {
  return of
    ? [
        known(of.requestsPerSecond),
        of.ttftP95Ms === null ? DASH : `${round.format(of.ttftP95Ms)} ms`,
        known(of.errorsPerSecond),
      ]
    : [DASH, DASH, DASH];
}

function drawDeployments(page) {
  const columns = [
    ["Deployment"],
    ["State", "full"],
    ["Ready", "num"],
    ["Roll-out", "tight"],
    ["Devices", "num"],
    ["Req/s", "num"],
    ["TTFT p95", "num"],
    ["Errors/s", "num"],
    ["Price/h", "num"],
  ];
  return [
    head("Deployments"),
    stateFilter(page, "deployments"),
    nothing(page, "deployment", "modelplane apply -f examples/quickstart/3-model.yaml"),
    page.rows.length
      ? card(
          null,
          table(
            "Model deployments",
            "requests of the last minute, where they are measured",
            columns,
            page.rows.map((d) => [
              link(PATHS.ModelDeployment(d.namespace, d.name), `${d.namespace}/${d.name}`),
              [state(d.health.state), h("p", { class: "why" }, d.health.why || d.placement)],
              `${d.serving} of ${d.wanted}`,
              rolloutTag(d.rollout),
              round.format(d.load.devices),
              ...traffic(d.load.traffic),
              price(d.load.price),
            ]),
          ),
        )
      : null,
    pager(page),
  ];
}

function rolloutTag(phase) {
  const kind = { Failed: "bad", Halted: "bad", Progressing: "warn", Paused: "warn" }[phase];
  return kind ? h("span", { class: `tag ${kind}` }, phase) : h("span", { class: "quiet" }, phase);
}

function drawDeployment(page) {
  const d = page.deployment;
  const verdicts = { Chosen: "good", Refused: "bad" };
  return [
    head(`${d.namespace}/${d.name}`, link("#/deployments", "Deployments"), state(d.health.state)),
    d.health.why ? h("p", { class: "why" }, d.health.why) : null,
    h(
      "div",
      { class: "figures" },
      figure("Ready", [String(d.serving), h("small", {}, ` of ${d.wanted} replicas`)], d.placement),
      figure("Roll-out", h("small", {}, d.rollout), page.rolloutMessage),
      figure("Devices", round.format(d.load.devices), plural(d.load.endpoints, "endpoint")),
      figure(
        "Price per hour",
        [
          d.load.price ? money.format(d.load.price.perHour) : DASH,
          h("small", {}, d.load.price ? ` ${d.load.price.currency}` : ""),
        ],
        "of the parts of nodes that it takes",
      ),
    ),
    page.activities.length ? card("Now", activityList(page.activities)) : null,
    page.notReady.length
      ? card(
          null,
          table(
            "What is missing",
            "",
            [["Reason"], ["Replicas", "num"], ["Cluster"], ["Since"], ["Replaced"], ["Message", "full"]],
            page.notReady.map((g) => [
              g.reason,
              String(g.replicas),
              g.cluster ? objectLink("InferenceCluster", "", g.cluster) : DASH,
              ago(g.since) || DASH,
              until(g.replacedAt) || DASH,
              g.message,
            ]),
          ),
        )
      : null,
    h(
      "div",
      { class: "grid wide-left" },
      treeCard("Replicas, pods and endpoints", page.tree, page.omitted, page.pods),
      card("Events", eventList(page.events)),
    ),
    page.candidates.length
      ? card(
          null,
          table(
            "Why here, why not there",
            page.candidatesOmitted ? `${round.format(page.candidatesOmitted)} candidates are not in the status` : "",
            [["Cluster"], ["Pool"], ["Verdict", "tight"], ["Score", "num"], ["Filter", "tight"], ["Reason", "full"]],
            page.candidates.map((c) => [
              objectLink("InferenceCluster", "", c.cluster),
              c.pool || DASH,
              h("span", { class: `tag ${verdicts[c.verdict] || ""}` }, c.verdict),
              c.score || DASH,
              c.filter || DASH,
              c.reason,
            ]),
          ),
          h("p", { class: "quiet small" }, "Every place, judged again with its scores:"),
          codeBlock([`modelplane explain md/${d.name} -n ${d.namespace}`]),
        )
      : null,
    page.revisions.length
      ? card(
          null,
          table(
            "Revisions",
            "the newest first",
            [["Revision"], ["Made"], ["Images", "full"], ["Cause"], ["Halted"]],
            page.revisions.map((r) => [
              String(r.revision),
              ago(r.createdAt) || DASH,
              r.images.join(", "),
              r.cause || DASH,
              r.halted || DASH,
            ]),
          ),
        )
      : null,
  ];
}

function drawServices(page) {
  return [
    head("Services"),
    stateFilter(page, "services"),
    nothing(page, "service", "modelplane apply -f examples/quickstart/3-model.yaml"),
    page.rows.length
      ? card(
          null,
          table(
            "Model services",
            "",
            [
              ["Service"],
              ["State", "full"],
              ["Serving", "num"],
              ["Req/s", "num"],
              ["TTFT p95", "num"],
              ["Errors/s", "num"],
              ["Address", "full"],
            ],
            page.rows.map((s) => [
              link(PATHS.ModelService(s.namespace, s.name), `${s.namespace}/${s.name}`),
              health(s.health),
              `${s.serving} of ${s.endpoints}`,
              ...traffic(s.traffic),
              s.address ? h("code", { class: "small" }, s.address) : DASH,
            ]),
          ),
        )
      : null,
    pager(page),
  ];
}

function drawService(page) {
  const s = page.service;
  return [
    head(
      `${s.namespace}/${s.name}`,
      link("#/services", "Services"),
      state(s.health.state),
      link(`#/playground?name=${seg(s.name)}&namespace=${seg(s.namespace)}`, "Try it"),
    ),
    s.health.why ? h("p", { class: "why" }, s.health.why) : null,
    h(
      "div",
      { class: "figures" },
      figure(
        "Endpoints",
        [String(s.serving), h("small", {}, ` of ${s.endpoints} serve`)],
        s.model ? `model ${s.model}` : "",
      ),
      figure("Gateways", [String(s.routesReady), h("small", {}, ` of ${s.routes} serve it`)], ""),
      figure(
        "Requests",
        [s.traffic ? one.format(s.traffic.requestsPerSecond) : DASH, h("small", {}, " per second")],
        s.traffic ? `${plural(s.traffic.endpoints, "endpoint")} measured` : "not measured",
      ),
      figure(
        "TTFT p95",
        s.traffic && s.traffic.ttftP95Ms !== null ? `${round.format(s.traffic.ttftP95Ms)} ms` : DASH,
        "of the slowest endpoint",
      ),
      s.tokenPrice
        ? figure(
            "1M tokens",
            [money.format(s.tokenPrice.perMillion), h("small", {}, ` ${s.tokenPrice.currency}`)],
            `an estimate: the price of now over ${one.format(s.tokenPrice.hours)} h`,
          )
        : null,
    ),
    page.tiers.map((tier) =>
      card(
        null,
        h(
          "div",
          { class: "bar", role: "img", "aria-label": `Shares of tier ${tier.priority}` },
          tier.endpoints
            .filter((e) => e.sharePercent)
            .map((e) => h("span", { class: "used", style: { "--n": e.sharePercent } })),
        ),
        table(
          `Tier ${tier.priority}`,
          `${tier.sharePercent} % of requests, ${tier.ready} of ${plural(tier.matched, "endpoint")} ready`,
          [
            ["Endpoint"],
            ["Cluster"],
            ["Share", "num"],
            ["Req/s", "num"],
            ["TTFT p95", "num"],
            ["Errors/s", "num"],
            ["Why left out", "full"],
          ],
          tier.endpoints.map((e) => [
            e.name,
            e.cluster ? objectLink("InferenceCluster", "", e.cluster) : DASH,
            `${one.format(e.sharePercent)} %`,
            ...traffic(e.traffic),
            e.why,
          ]),
        ),
      ),
    ),
    s.address ? card("Call it", h("p", { class: "address" }, h("code", {}, s.address)), snippets(s)) : null,
    h(
      "div",
      { class: "grid wide-left" },
      treeCard("Where its endpoints come from", page.tree, page.omitted),
      card("Events", eventList(page.events)),
    ),
  ];
}

/** Requests to paste have the name that the service lists now, so it is read once when its page is opened. */
const listed = new Map();

function snippets(s) {
  const key = `${s.namespace}/${s.name} ${s.serving}`;
  if (!listed.has(key)) {
    listed.set(key, null);
    fetch(`/api/models?${new URLSearchParams({ namespace: s.namespace, name: s.name })}`)
      .then(
        async (answer) => (answer.ok ? answer.json() : { snippets: [], error: sentence(await answer.text()) }),
        (error) => ({ snippets: [], error: error.message }),
      )
      .then((found) => {
        listed.set(key, found);
        redraw();
      });
  }
  const found = listed.get(key);
  if (!found) return h("p", { class: "quiet" }, "Reading the names of its models.");
  if (found.error) return h("p", { class: "why" }, found.error);
  return found.snippets.map((each) => h("div", { class: "snippet" }, h("h3", {}, each.title), codeBlock(each.lines)));
}

function drawCaches(page) {
  return [
    head("Caches"),
    stateFilter(page, "caches"),
    nothing(page, "cache", "modelplane apply -f examples/caches"),
    page.rows.map((c) =>
      h(
        "section",
        { class: "card", "data-key": `${c.namespace}/${c.name}` },
        h("div", { class: "row" }, h("h2", {}, `${c.namespace}/${c.name}`), state(c.health.state)),
        h(
          "p",
          { class: "why" },
          [c.artifact, c.source, c.staged && `${c.staged} clusters`, c.progress, plural(c.references, "replica")]
            .filter(Boolean)
            .join(", "),
        ),
        c.health.why ? h("p", { class: "why" }, c.health.why) : null,
        c.clusters.length
          ? table(
              "Clusters",
              c.omitted ? `${plural(c.omitted, "more")} not shown` : "",
              [
                ["Cluster"],
                ["Phase", "tight"],
                ["Progress", "full"],
                ["Rate", "num"],
                ["Left", "num"],
                ["Replicas", "num"],
                ["Why", "full"],
              ],
              c.clusters.map((at) => [
                objectLink("InferenceCluster", "", at.cluster),
                at.phase,
                [
                  at.percent === null
                    ? null
                    : h("progress", {
                        max: 100,
                        value: at.percent,
                        "aria-label": `${at.cluster}: ${at.percent} percent`,
                      }),
                  h("span", { class: "small" }, at.progress),
                ],
                at.rate || DASH,
                at.etaS === null ? DASH : span(at.etaS),
                String(at.references),
                at.why,
              ]),
            )
          : h("p", { class: "quiet" }, "On no cluster yet."),
      ),
    ),
    pager(page),
  ];
}

function drawEvents(page) {
  const types = ["", "Warning", "Normal"];
  return [
    head("Events", null),
    filterBar(
      "events",
      "Type",
      "type",
      types.map((type) => [type, type || "All"]),
    ),
    card(null, eventList(page.rows)),
    pager(page),
  ];
}

// The playground: it keeps what was typed and said while the list of services changes.

const talk = { messages: [], running: null };

function drawPlayground(page) {
  const want = route.query.name ? `${route.query.namespace}/${route.query.name}` : talk.service;
  const options = page.rows.map((s) => `${s.namespace}/${s.name}`);
  if (want && !options.includes(want)) options.unshift(want);
  return [
    head("Playground"),
    options.length
      ? card(
          null,
          h(
            "form",
            { class: "play", "data-act": "send" },
            h(
              "div",
              { class: "fields" },
              h(
                "label",
                {},
                "Service",
                h(
                  "select",
                  { id: "play-service" },
                  options.map((name) => h("option", { value: name, selected: name === want }, name)),
                ),
              ),
              h(
                "label",
                {},
                "Model (empty: the service's)",
                h("input", { type: "text", id: "play-model", autocomplete: "off" }),
              ),
              h(
                "label",
                {},
                "Most tokens",
                h("input", { type: "number", id: "play-tokens", min: 1, max: 100000, value: 256 }),
              ),
              h(
                "label",
                {},
                "Key, where the gateway asks for one",
                h("input", { type: "password", id: "play-key", autocomplete: "off" }),
              ),
            ),
            h("label", {}, "Message", h("textarea", { id: "play-text", rows: 3, placeholder: "Say hello." })),
            h(
              "p",
              { class: "filter" },
              h("button", { class: "main", id: "play-send" }, "Send"),
              h("button", { type: "button", "data-act": "stop", id: "play-stop", disabled: true }, "Stop"),
              h("button", { type: "button", "data-act": "clear" }, "Clear"),
              h("span", { class: "quiet small", id: "play-note" }, "Ctrl and Enter send."),
            ),
          ),
        )
      : nothing({ rows: [] }, "service", "modelplane apply -f examples/quickstart/3-model.yaml"),
    h(
      "div",
      { class: "talk", id: "talk", "data-keep": true, "data-key": "talk", role: "log", "aria-label": "Conversation" },
      talk.messages.map((message) => bubble(message.role, message.content)),
    ),
  ];
}

const bubble = (role, content) => h("div", { class: `said ${role}` }, h("span", { class: "who" }, role), content);

/** Adds what somebody says, and returns the text, which may grow. */
function say(role, text) {
  const body = document.createTextNode(text);
  document.getElementById("talk").append(bubble(role, body));
  return body;
}

async function send() {
  const field = (id) => document.getElementById(id);
  const text = field("play-text").value.trim() || field("play-text").placeholder;
  const [namespace, service] = field("play-service").value.split("/");
  if (talk.running) return;
  talk.service = field("play-service").value;
  talk.messages.push({ role: "user", content: text });
  say("user", text);
  const answer = say("assistant", "");
  const running = new AbortController();
  talk.running = running;
  field("play-stop").disabled = false;
  field("play-send").disabled = true;
  field("play-text").value = "";
  const started = performance.now();
  const seen = { first: 0, pieces: 0, model: "" };
  try {
    const response = await fetch("/api/chat", {
      method: "POST",
      signal: running.signal,
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({
        namespace,
        service,
        messages: talk.messages,
        model: field("play-model").value.trim(),
        maxTokens: Number(field("play-tokens").value) || 256,
        key: field("play-key").value,
      }),
    });
    if (!response.ok) throw new Error(`${response.status}: ${sentence(await response.text())}`);
    seen.model = response.headers.get("X-Modelplane-Model") || "";
    for await (const piece of deltas(response.body)) {
      seen.first ||= performance.now() - started;
      seen.pieces += 1;
      answer.data += piece;
    }
    talk.messages.push({ role: "assistant", content: answer.data });
  } catch (error) {
    talk.messages.pop();
    if (error.name === "AbortError") answer.data += " (stopped)";
    else {
      answer.parentElement.classList.add("error");
      answer.data += `${answer.data ? "\n" : ""}${error.message}`;
    }
  } finally {
    talk.running = null;
    const took = performance.now() - started;
    if (field("play-note")) {
      field("play-stop").disabled = true;
      field("play-send").disabled = false;
      const rate = took > seen.first ? seen.pieces / ((took - seen.first) / 1000) : 0;
      setText(
        field("play-note"),
        seen.pieces
          ? `${seen.model}: first token after ${round.format(seen.first)} ms, ${plural(seen.pieces, "piece")}, ${one.format(rate)} per second`
          : "",
      );
    }
  }
}

/** The texts of a stream of chat completions. */
async function* deltas(body) {
  let rest = "";
  const decoder = new TextDecoder();
  const reader = body.getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    rest += decoder.decode(read.value, { stream: true });
    const lines = rest.split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const data = line.startsWith("data:") ? line.slice(5).trim() : "";
      if (!data || data === "[DONE]") continue;
      const event = JSON.parse(data);
      if (event.error) throw new Error(event.error.message || "the service ended the response");
      const text = event.choices?.[0]?.delta?.content;
      if (text) yield text;
    }
  }
}

function sentence(body) {
  try {
    const found = JSON.parse(body);
    return String(found.error?.message || found.error || body);
  } catch {
    return body.slice(0, 300);
  }
}

// Where we are, and what the server pushes

const VIEWS = [
  ["overview", "Overview", drawOverview],
  ["fleet", "Clusters", drawFleet, "clusters"],
  ["deployments", "Deployments", drawDeployments, "deployments"],
  ["services", "Services", drawServices, "services"],
  ["caches", "Caches", drawCaches, "caches"],
  ["events", "Events", drawEvents],
  ["playground", "Playground", drawPlayground],
];
const DRAWN = {
  ...Object.fromEntries(VIEWS.map(([name, , draw]) => [name, draw])),
  cluster: drawCluster,
  deployment: drawDeployment,
  service: drawService,
};
const PARENT = { cluster: "fleet", deployment: "deployments", service: "services" };
const LIMITS = { fleet: 12, events: 100, playground: 200 };

let route = { view: "overview", path: "/overview", query: {} };
let summary = null;
let page = null;
let source = null;
let retry = 0;
let frame = 0;

function address(path, query) {
  const kept = Object.entries(query).filter(([, value]) => value);
  return `#${path}${kept.length ? `?${new URLSearchParams(kept)}` : ""}`;
}

function readRoute() {
  const [path, words = ""] = location.hash.slice(1).split("?");
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  const view = Object.hasOwn(DRAWN, parts[0]) ? parts[0] : "overview";
  return {
    view,
    path: path || "/overview",
    query: Object.fromEntries(new URLSearchParams(words)),
    place: parts.slice(1),
  };
}

function streamAddress() {
  const { view, query, place } = route;
  const params = new URLSearchParams({ view: view === "playground" ? "services" : view });
  if (view === "cluster") params.set("name", place[0] || "");
  else if (view === "deployment" || view === "service") {
    params.set("namespace", place[0] || "");
    params.set("name", place[1] || "");
  } else if (view !== "playground")
    for (const field of ["q", "state", "type", "offset"]) if (query[field]) params.set(field, query[field]);
  if (LIMITS[view]) params.set("limit", LIMITS[view]);
  return `/api/stream?${params}`;
}

function open() {
  close();
  if (document.hidden) return;
  source = new EventSource(streamAddress());
  source.addEventListener("open", () => connection("live"));
  source.addEventListener("problem", (event) => {
    trouble = JSON.parse(event.data).problem;
    connection(trouble ? "stale" : "live");
  });
  source.addEventListener("error", () => {
    connection("lost");
    if (source && source.readyState === EventSource.CLOSED) refused();
  });
  source.addEventListener("summary", (event) => {
    summary = JSON.parse(event.data);
    clockSkew = Math.abs(Date.parse(summary.now) - Date.now()) > 2000 ? Date.parse(summary.now) - Date.now() : 0;
    redraw();
  });
  source.addEventListener("view", (event) => {
    page = { view: route.view, data: JSON.parse(event.data) };
    redraw();
  });
  source.addEventListener("gone", (event) => {
    page = { view: "gone", data: JSON.parse(event.data) };
    redraw();
  });
}

/** The server refused the stream. Its own address has the reason, and the stream is tried again. */
async function refused() {
  clearTimeout(retry);
  retry = setTimeout(open, 5000);
  const answer = await fetch("/api/summary").catch(() => null);
  if (answer && !answer.ok) setText(document.getElementById("foot"), sentence(await answer.text()));
}

function close() {
  clearTimeout(retry);
  if (source) source.close();
  source = null;
}

function connection(now) {
  const words = { live: "live", stale: "old", lost: "not connected", connecting: "connecting" };
  const shown = document.getElementById("live");
  shown.dataset.state = now;
  setText(shown, words[now]);
  setText(document.getElementById("foot"), { lost: LOST, stale: `${trouble}. ${KEPT}` }[now] || footer());
}

const KEPT = "What is shown is what was last known.";
const LOST = `The plane does not answer. ${KEPT} \`modelplane status\` prints the address.`;
let trouble = "";

const footer = () => (summary && summary.gateway ? `Gateway ${summary.gateway}` : "");

function redraw() {
  if (!frame)
    frame = requestAnimationFrame(() => {
      frame = 0;
      draw();
    });
}

function draw() {
  drawNav();
  if (!summary || !page) return;
  const main = document.getElementById("main");
  const nodes =
    page.view === "gone"
      ? [
          head("Not there", null),
          h("section", { class: "card empty" }, h("p", {}, page.data.error), link("#/overview", "Back to the fleet")),
        ]
      : page.view === route.view
        ? DRAWN[route.view](page.data)
        : null;
  if (!nodes) return;
  patch(main, nodes.flat(Infinity).filter(Boolean));
  main.setAttribute("aria-busy", "false");
  const filter = document.getElementById("filter");
  if (filter && filter !== document.activeElement) filter.value = route.query.q || "";
  document.title = `${main.querySelector("h1")?.textContent || "Fleet"} · Modelplane`;
  if (document.getElementById("live").dataset.state === "live") setText(document.getElementById("foot"), footer());
}

function drawNav() {
  const here = PARENT[route.view] || route.view;
  patch(
    document.getElementById("nav"),
    VIEWS.map(([name, title, , counted]) =>
      h(
        "a",
        { href: `#/${name}`, "aria-current": name === here ? "page" : null, "data-key": name },
        title,
        counted && summary && summary[counted].total
          ? h("span", { class: "n" }, round.format(summary[counted].total))
          : null,
      ),
    ),
  );
}

function follow() {
  const before = route;
  route = readRoute();
  const same = before.path === route.path;
  if (!same) {
    page = null;
    const main = document.getElementById("main");
    main.setAttribute("aria-busy", "true");
    scrollTo(0, 0);
    if (document.activeElement !== document.body) main.focus({ preventScroll: true });
  }
  drawNav();
  open();
}

// What people do

let typing = 0;
const acts = {
  copy(button) {
    const text = button.closest("p").previousElementSibling.textContent;
    navigator.clipboard.writeText(text).then(
      () => announce("Copied"),
      () => announce("The browser does not let this page copy"),
    );
    setText(button, "Copied");
    setTimeout(() => setText(button, "Copy"), 1500);
  },
  help() {
    document.getElementById("help").showModal();
  },
  stop() {
    talk.running?.abort();
  },
  clear() {
    talk.messages = [];
    document.getElementById("talk").replaceChildren();
  },
};

function announce(text) {
  setText(document.getElementById("said"), text);
}

document.addEventListener("click", (event) => {
  if (event.target.closest(".skip")) {
    event.preventDefault();
    document.getElementById("main").focus();
  }
  const target = event.target.closest("button[data-act]");
  if (target && acts[target.dataset.act]) acts[target.dataset.act](target);
});
document.addEventListener("input", (event) => {
  if (event.target.dataset.act !== "filter") return;
  clearTimeout(typing);
  typing = setTimeout(() => {
    history.replaceState(null, "", address(route.path, { ...route.query, q: event.target.value.trim(), offset: "" }));
    follow();
  }, 150);
});
document.addEventListener("submit", (event) => {
  if (event.target.dataset.act !== "send") return;
  event.preventDefault();
  send();
});
document.addEventListener("keydown", (event) => {
  const field = event.target.closest("input, textarea, select");
  if (field && event.key === "Enter" && (event.ctrlKey || event.metaKey) && field.form?.dataset.act === "send") {
    event.preventDefault();
    send();
    return;
  }
  if (field && event.key === "Escape") field.blur();
  if (field || event.ctrlKey || event.metaKey || event.altKey || !shortcuts()) return;
  const views = Number(event.key);
  if (views >= 1 && views <= VIEWS.length) location.hash = `#/${VIEWS[views - 1][0]}`;
  else if (event.key === "/") {
    event.preventDefault();
    document.getElementById("filter")?.focus();
  } else if (event.key === "?") acts.help();
  else if (event.key === "[") document.querySelector("[data-act=before]")?.click();
  else if (event.key === "]") document.querySelector("[data-act=after]")?.click();
});

const shortcuts = () => localStorage.getItem("modelplane-shortcuts") !== "off";
const box = document.getElementById("shortcuts");
box.checked = shortcuts();
box.addEventListener("change", () => localStorage.setItem("modelplane-shortcuts", box.checked ? "on" : "off"));

addEventListener("hashchange", follow);
document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
setInterval(tick, 1000);
follow();
