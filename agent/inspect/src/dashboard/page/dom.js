// Making elements. Text always goes in as text: nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") {
      for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    } else if (name === "style") {
      for (const [property, of] of Object.entries(value)) element.style.setProperty(property, of);
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/** An HTML element. */
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** An SVG element. */
export function s(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

/** The element with that id. */
export function byId(id) {
  return document.getElementById(id);
}

/** Replaces what an element holds. Who has the focus in it keeps it: the same thing, drawn anew, gets it. */
export function put(element, ...children) {
  const active = document.activeElement;
  const held = element !== active && element.contains(active) ? active : undefined;
  const place = held && alike(element, held).indexOf(held);
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false));
  if (held) (held.isConnected ? held : alike(element, held)[place])?.focus({ preventScroll: true });
  return element;
}

/** What is within an element and is for people the same as that. */
function alike(element, wanted) {
  // A choice has its options as text.
  const name = (it) => it.getAttribute("aria-label") ?? (it.matches("select") ? "" : it.textContent);
  return [...element.querySelectorAll(wanted.tagName)].filter((it) => name(it) === name(wanted));
}

/** Sets text only if it differs, so that nothing is laid out anew in vain. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A labelled choice. */
export function choice(label, options, value, act) {
  const select = h("select", { on: { change: () => act(select.value) } },
    options.map(([id, text]) => h("option", { value: id, selected: id === value }, text)));
  return h("label", { class: "field" }, h("span", {}, label), select);
}

/** A few buttons of which one is pressed. */
export function segments(label, options, value, act) {
  const group = h("div", { class: "segments", role: "group", "aria-label": label });
  for (const [id, text] of options) {
    group.append(h("button", {
      type: "button",
      "aria-pressed": String(id === value),
      on: {
        click: (event) => {
          for (const other of group.children) other.setAttribute("aria-pressed", String(other === event.currentTarget));
          act(id);
        },
      },
    }, text));
  }
  return group;
}

/** The value of a token of the style sheet, for canvases. */
export function token(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** A canvas sized for the screen's pixels, and its context in CSS pixels. */
export function canvasContext(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  const [w, t] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== t) {
    canvas.width = w;
    canvas.height = t;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}
