// Another implementation of what the package computes, to compare with: BigInt
// and Intl of Node. It reads a case a line, its fields apart by tabs, and
// answers with a line for each. "error" is a case that must be refused.
import { readFileSync, writeSync } from 'node:fs';

const calculate = {
  add: (l, r) => l + r,
  subtract: (l, r) => l - r,
  multiply: (l, r) => l * r,
  divide: (l, r) => l / r,
  modulo: (l, r) => l % r,
  power: (l, r) => l ** r,
  min: (l, r) => (l < r ? l : r),
  max: (l, r) => (l > r ? l : r),
  compare: (l, r) => (l < r ? -1 : l > r ? 1 : 0),
};

function bigint(operation, left, right) {
  const r = BigInt(right);
  if (r === 0n && (operation === 'divide' || operation === 'modulo')) return 'error';
  if (r < 0n && operation === 'power') return 'error';
  return String(calculate[operation](BigInt(left), r));
}

// A fraction in lowest digits by long division, and not by moving a point.
function units(value, from, to) {
  const [, sign, whole, , decimals = ''] = /^(-?)([0-9]+)(\.([0-9]+))?$/.exec(value);
  let numerator = BigInt(whole + decimals) * 10n ** BigInt(from);
  const scale = 10n ** BigInt(decimals.length);
  if (numerator % scale !== 0n) return 'error';
  numerator /= scale;
  const denominator = 10n ** BigInt(to);
  let digits = '';
  for (let rest = numerator % denominator; rest !== 0n;) {
    rest *= 10n;
    digits += rest / denominator;
    rest %= denominator;
  }
  const text = String(numerator / denominator) + (digits && '.' + digits);
  return sign && text !== '0' ? '-' + text : text;
}

const formats = new Map();

// What a wall clock shows in a time zone.
function date(milliseconds, timeZone) {
  if (!formats.has(timeZone)) {
    formats.set(timeZone, new Intl.DateTimeFormat('en-US', {
      timeZone, hourCycle: 'h23', weekday: 'long', year: 'numeric', month: 'long', day: '2-digit', hour: '2-digit', minute: '2-digit', second: '2-digit', timeZoneName: 'longOffset',
    }));
  }
  const at = new Date(Number(milliseconds));
  const part = Object.fromEntries(formats.get(timeZone).formatToParts(at).map(({ type, value }) => [type, value]));
  const offset = part.timeZoneName === 'GMT' ? '+00:00' : part.timeZoneName.replace('GMT', '');
  return `${part.weekday} ${part.day} ${part.month} ${part.year} ${part.hour}:${part.minute}:${part.second} ${offset}`;
}

// The matches of a pattern that both languages read alike.
function regex(pattern, text) {
  const all = [...JSON.parse(text).matchAll(new RegExp(JSON.parse(pattern), 'gu'))];
  return JSON.stringify(all.map((found) => ({
    match: found[0], index: [...found.input.slice(0, found.index)].length, groups: found.slice(1).map((group) => group ?? null), named: { ...found.groups },
  })));
}

const answers = readFileSync(0, 'utf8').trimEnd().split('\n').map((line) => {
  const [kind, ...fields] = line.split('\t');
  return { bigint, units, date, regex }[kind](...fields);
});
const out = Buffer.from(answers.join('\n') + '\n');
for (let at = 0; at < out.length;) at += writeSync(1, out, at);
