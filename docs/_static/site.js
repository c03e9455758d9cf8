// What scrolls to the side can be scrolled by keys.
addEventListener("load", () => {
  for (const e of document.querySelectorAll("pre, .table-wrapper")) if (e.scrollWidth > e.clientWidth) e.tabIndex = 0;
});
