const away = document.getElementById("away");
const spots = () => document.querySelectorAll("main .scroll, main pre");
async function renew() {
  const chosen = getSelection();
  const busy = document.hidden || (chosen && !chosen.isCollapsed);
  try {
    if (!busy) {
      const answer = await fetch(location.href, {cache: "no-store"});
      if (!answer.ok) throw new Error(answer.status);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const main = fresh.querySelector("main");
      const scrolled = Array.from(spots(), spot => [spot.scrollLeft, spot.scrollTop]);
      const open = document.activeElement.closest("nav a")?.getAttribute("href");
      const [x, y] = [scrollX, scrollY];
      document.querySelector("main").replaceWith(document.adoptNode(main));
      document.title = fresh.title;
      spots().forEach((spot, k) => spot.scrollTo(...(scrolled[k] ?? [0, 0])));
      for (const link of document.querySelectorAll("nav a"))
        if (link.getAttribute("href") === open) link.focus({preventScroll: true});
      scrollTo(x, y);
      away.hidden = true;
    }
  } catch (error) {
    away.textContent = `The service does not answer (${error.message}); this is what it said last.`;
    away.hidden = false;
  }
  setTimeout(renew, wait);
}
setTimeout(renew, wait);
