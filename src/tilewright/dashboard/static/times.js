// Moments in the reader's own time: pages say them in UTC, for those who run no scripts.

const NEAR = 86_400;
const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });
const ago = new Intl.RelativeTimeFormat(undefined, { numeric: "always", style: "short" });

/** Of today: how long ago; else day and time. @param {Date} moment */
function words(moment) {
  const seconds = Math.round((Date.now() - moment) / 1000);
  if (seconds < 0 || seconds >= NEAR) return clock.format(moment);
  const [worth, unit] = [[3600, "hour"], [60, "minute"]].find(([worth]) => seconds >= worth) ?? [1, "second"];
  return ago.format(-Math.floor(seconds / worth), unit);
}

/** Rewrites the times in an element. @param {Element} root */
export function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (Number.isNaN(moment.getTime())) continue;
    time.textContent = words(moment);
    time.title = whole.format(moment);
  }
}
