const wholes = new Intl.NumberFormat("en");
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function whole(value: number): string {
  return wholes.format(Math.round(value));
}

/** Short, for numbers that move: 12, 1.2 K, 3.4 M. */
export function short(value: number): string {
  const size = Math.abs(value);
  if (size < 10 && !Number.isInteger(value)) return value.toFixed(1);
  if (size < 1000) return String(Math.round(value));
  for (const [limit, divisor, letter] of [
    [1e6, 1e3, "K"],
    [1e9, 1e6, "M"],
    [Infinity, 1e9, "G"],
  ] as const) {
    if (size < limit) {
      const scaled = value / divisor;
      return `${scaled < 100 ? scaled.toFixed(1) : Math.round(scaled)} ${letter}`;
    }
  }
  return String(value);
}

export function bytes(value: number): string {
  let unit = 0;
  let size = value;
  while (size >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${UNITS[unit]}`;
}

export function seconds(value: number): string {
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 60) return `${value < 10 ? value.toFixed(1) : Math.round(value)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  if (value < 86_400) return `${Math.floor(value / 3600)} h ${Math.floor((value % 3600) / 60)} min`;
  return `${Math.floor(value / 86_400)} d ${Math.floor((value % 86_400) / 3600)} h`;
}

/** Of something that is quick: 0.4 ms. */
export function span(value: number): string {
  return value < 0.01 ? `${(value * 1000).toFixed(1)} ms` : seconds(value);
}

export function moment(ms: number | undefined): string {
  if (!ms || ms < 0) return "never";
  const at = new Date(ms);
  const day = at.toDateString() === new Date().toDateString() ? "" : `${at.toLocaleDateString("en-CA")} `;
  return `${day}${at.toLocaleTimeString("en-GB")}`;
}

export function ago(ms: number | undefined, now: number): string {
  return !ms || ms < 0 ? "never" : `${seconds(Math.max(0, (now - ms) / 1000))} ago`;
}

export function lag(value: number, isExact: boolean): string {
  return value === 0 ? "0" : `${isExact ? "" : "≈ "}${whole(value)}`;
}

export function count(value: number, one: string, many = `${one}s`): string {
  return `${whole(value)} ${value === 1 ? one : many}`;
}
