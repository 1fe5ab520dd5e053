// Records as lines of JSON, and lines as messages. Bytes that are not UTF-8 stand as {"base64": "..."}, so that nothing
// is lost: what read.mjs prints write.mjs takes.

import { FormatError } from './ids.mjs';
import { Scanner } from './msgpack.mjs';

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

const base64 = (bytes) => new Map([['base64', bytes.toString('base64')]]);

function text(bytes) {
  try {
    return utf8.decode(bytes);
  } catch {
    return base64(bytes);
  }
}

const pairs = (rows) => rows.map((row) => row.map(text));

// JSON, with BigInts as numbers and Maps as objects.
function stringify(value) {
  if (Array.isArray(value)) return `[${value.map(stringify).join(',')}]`;
  if (value instanceof Map) return `{${[...value].map(([k, v]) => `${JSON.stringify(k)}:${stringify(v)}`).join(',')}}`;
  return typeof value === 'bigint' ? String(value) : JSON.stringify(value);
}

// The next msgpack value. What JSON has no name for: {"base64"}, {"ext", "base64"}, {"float": "NaN"}, and {"map": [[key,
// value]]} when keys are no strings or one is there twice.
function decode(s) {
  const { family, n, value, type } = s.head();
  switch (family) {
    case 'str': return text(s.bytes(n));
    case 'bin': return base64(s.bytes(n));
    case 'ext': return new Map([['ext', type], ...base64(s.bytes(n))]);
    case 'float': return Number.isFinite(value) ? value : new Map([['float', String(value)]]);
    case 'array': return Array.from({ length: n }, () => decode(s));
    case 'map': {
      const rows = Array.from({ length: n }, () => [decode(s), decode(s)]);
      const plain = rows.every(([key]) => typeof key === 'string') && new Set(rows.map(([key]) => key)).size === n;
      return plain ? new Map(rows) : new Map([['map', rows]]);
    }
    default: return value;
  }
}

/** One record as one line, without the line end. */
export function line(record) {
  const out = new Map([['id', record.id], ['position', record.position]]);
  if (record.fields) {
    out.set('fields', pairs(record.fields));
    if (record.error) out.set('error', record.error.message);
    return stringify(out);
  }
  out.set('type', text(record.type)).set('key', text(record.key)).set('headers', pairs(record.headers));
  out.set('data', text(record.data)).set('format', record.format);
  if (record.format === 'msgpack') out.set('value', decode(new Scanner(record.data)));
  return stringify(out);
}

function bytes(value, name) {
  if (value === undefined) return Buffer.alloc(0);
  if (typeof value === 'string') return Buffer.from(value);
  if (typeof value?.base64 === 'string') return Buffer.from(value.base64, 'base64');
  throw new FormatError(`${name}: want a string or {"base64": "..."}`);
}

/** The message in a line; headers may be an object, too. What says where a message stood (id, position) is not looked at. */
export function message(json) {
  const m = JSON.parse(json);
  if (m === null || typeof m !== 'object' || Array.isArray(m)) throw new FormatError('want an object');
  if (m.fields) throw new FormatError('a foreign or undecodable entry is not a message');
  const { headers = [], format = 'bytes' } = m;
  if (format !== 'bytes' && format !== 'msgpack') throw new FormatError('format: want "bytes" or "msgpack"');
  const rows = Array.isArray(headers) ? headers : Object.entries(headers);
  return {
    type: bytes(m.type, 'type'),
    key: bytes(m.key, 'key'),
    headers: rows.map(([name, value]) => [bytes(name, 'header'), bytes(value, 'header')]),
    data: bytes(m.data, 'data'),
    format,
  };
}
