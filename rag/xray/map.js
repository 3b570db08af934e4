// The map: data = {points: [[x, y, label, id, text]...], labels, numeric}.
{
  const root = document.getElementById("map"), canvas = root.querySelector("canvas"), tip = document.getElementById("tip");
  const legend = document.getElementById("legend"), g = canvas.getContext("2d");
  const named = ["--c0", "--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7"];
  const ramp = ["#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#cfd22a", "#8a8f94"]; // dark to light: low to high
  const colour = i => data.numeric ? ramp[i] : getComputedStyle(document.documentElement).getPropertyValue(named[i]);
  const hidden = new Set();
  let view = null;
  const extent = k => {
    let lo = Infinity, hi = -Infinity;
    for (const p of data.points) { lo = Math.min(lo, p[k]); hi = Math.max(hi, p[k]); }
    return [lo, hi];
  };
  const reset = () => {
    const [x0, x1] = extent(0), [y0, y1] = extent(1), w = root.clientWidth, h = root.clientHeight;
    const scale = 0.92 * Math.min(w / ((x1 - x0) || 1), h / ((y1 - y0) || 1));
    view = {scale, x: w / 2 - scale * (x0 + x1) / 2, y: h / 2 + scale * (y0 + y1) / 2};
  };
  const place = p => [view.x + view.scale * p[0], view.y - view.scale * p[1]];
  const draw = () => {
    const ratio = window.devicePixelRatio || 1, w = root.clientWidth, h = root.clientHeight;
    canvas.width = w * ratio; canvas.height = h * ratio;
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.globalAlpha = 0.7;
    const styles = (data.labels.length ? data.labels : [""]).map((_, i) => colour(i));
    for (const p of data.points) {
      if (hidden.has(p[2])) continue;
      const [x, y] = place(p);
      if (x < -5 || y < -5 || x > w + 5 || y > h + 5) continue;
      g.fillStyle = styles[p[2]];
      g.beginPath(); g.arc(x, y, 3, 0, 7); g.fill();
    }
  };
  data.labels.forEach((name, i) => {
    const entry = document.createElement("span"), mark = document.createElement("i");
    mark.style.background = data.numeric ? ramp[i] : `var(${named[i]})`;
    entry.append(mark, name);
    entry.addEventListener("click", () => {
      if (!hidden.delete(i)) hidden.add(i);
      entry.classList.toggle("off", hidden.has(i));
      draw();
    });
    legend.append(entry);
  });
  canvas.addEventListener("wheel", e => {
    e.preventDefault();
    const f = Math.exp(-e.deltaY / 400);
    view.x = e.offsetX - f * (e.offsetX - view.x);
    view.y = e.offsetY - f * (e.offsetY - view.y);
    view.scale *= f;
    draw();
  }, {passive: false});
  let drag = null;
  canvas.addEventListener("pointerdown", e => { drag = [e.clientX, e.clientY]; canvas.setPointerCapture(e.pointerId); });
  canvas.addEventListener("pointerup", () => { drag = null; });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("pointermove", e => {
    if (drag) {
      view.x += e.clientX - drag[0]; view.y += e.clientY - drag[1];
      drag = [e.clientX, e.clientY];
      tip.hidden = true;
      draw();
      return;
    }
    let best = null, least = 64;
    for (const p of data.points) {
      if (hidden.has(p[2])) continue;
      const [x, y] = place(p), d = (x - e.offsetX) ** 2 + (y - e.offsetY) ** 2;
      if (d < least) { least = d; best = p; }
    }
    tip.hidden = !best;
    if (!best) return;
    const id = document.createElement("code");
    id.textContent = best[3];
    tip.replaceChildren(id, best[4] ? " " + best[4] : "", data.labels.length ? " · " + data.labels[best[2]] : "");
    tip.style.left = Math.min(e.offsetX + 12, root.clientWidth - tip.offsetWidth - 4) + "px";
    tip.style.top = Math.min(e.offsetY + 12, root.clientHeight - tip.offsetHeight - 4) + "px";
  });
  canvas.addEventListener("dblclick", () => { reset(); draw(); });
  new ResizeObserver(() => { reset(); draw(); }).observe(root);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}
