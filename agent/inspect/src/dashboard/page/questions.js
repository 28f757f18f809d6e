// A choice of whether what only looks is shown: requests of this page, of scrapers, and of whoever reads.

import { h } from "./dom.js";

export class Questions {
  constructor(app) {
    this.app = app;
    this.box = h("input", { type: "checkbox", on: { change: () => app.ask(this.box.checked) } });
    this.element = h("label", { class: "field check", title: "Requests that only read, as this page and scrapers send them" }, this.box, h("span", {}, "Questions"));
  }

  update() {
    this.box.checked = this.app.questions;
  }
}
