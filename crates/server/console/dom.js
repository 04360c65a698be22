// Elements without a framework.
//
// Nothing here sets a style attribute or parses HTML: the page's policy forbids the one, and data could misuse the other.

const SVG = "http://www.w3.org/2000/svg";

/** An element; `attributes` may have `class`, `on` (listeners by event), `style` (properties) and any attribute. */
export function h(name, attributes, ...children) {
  return made(document.createElement(name), attributes, children);
}

/** An element of SVG. */
export function svg(name, attributes, ...children) {
  return made(document.createElementNS(SVG, name), attributes, children);
}

function made(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "style") for (const [property, text] of Object.entries(value)) element.style.setProperty(property, text);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** The element with this id, which the page has. */
export const byId = (id) => document.getElementById(id);

/** Makes the buttons of a tab list work: click, arrow keys, Home and End. Gives a function that chooses one by its panel's id. */
export function tabs(list, chosen) {
  const all = () => [...list.querySelectorAll("[role=tab]")].filter((tab) => !tab.hidden);
  const choose = (tab, focus) => {
    for (const other of list.querySelectorAll("[role=tab]")) {
      const own = other === tab;
      other.setAttribute("aria-selected", String(own));
      other.tabIndex = own ? 0 : -1;
      byId(other.getAttribute("aria-controls")).hidden = !own;
    }
    if (focus) tab.focus();
    chosen?.(tab.getAttribute("aria-controls"));
  };
  list.addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) choose(tab, false);
  });
  list.addEventListener("keydown", (event) => {
    const shown = all().filter((tab) => !tab.disabled);
    const at = shown.indexOf(document.activeElement);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: shown.length - 1 }[event.key];
    if (next === undefined || at < 0) return;
    event.preventDefault();
    choose(shown[(next + shown.length) % shown.length], true);
  });
  return (panel) => choose(all().find((tab) => tab.getAttribute("aria-controls") === panel) ?? all()[0], false);
}
