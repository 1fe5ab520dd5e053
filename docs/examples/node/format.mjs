// Messages, packs and entries: sections 2 to 5 of codec/FORMAT.md. Every string is a Buffer, since it need not be UTF-8.

import zlib from 'node:zlib';

import { FormatError, formatEntryId, formatPosition, hostId, parseId, serverId } from './ids.mjs';
import { arrayHead, bin, mapHead, Scanner, str, uint } from './msgpack.mjs';

const VERSION = 1;
export const MAX_PACK = 4096;
const MAX_INFLATED = 8 << 20;
const LIMITS = { type: 255, key: 1024, headers: 64, headerKey: 255, headerValue: 8192 };

// ---- section 2 and 3: the message -----------------------------------------

function readVersion(s) {
  const { value, start } = s.want('int', 'want a version');
  if (value < 1) throw new FormatError('want a version', start);
  if (value > VERSION) throw new FormatError('newer version', start);
}

function readString(s, what) {
  return s.bytes(s.want('str', what).n);
}

function readHeaders(s) {
  const { n, start } = s.want('map', 'headers: want a map');
  if (n > LIMITS.headers) throw new FormatError('too many headers', start);
  const headers = new Map(); // a repeated key: the last value, at the place of the first
  for (let i = 0; i < n; i++) {
    const key = readString(s, 'headers: want a string');
    headers.set(key.toString('latin1'), [key, readString(s, 'headers: want a string')]);
  }
  return [...headers.values()];
}

function readArray(s, least) {
  const { n, start } = s.want('array', 'want an array');
  if (n < least) throw new FormatError('too short', start);
  readVersion(s);
  return n;
}

function readMessage(s) {
  const n = readArray(s, 5);
  const message = { type: readString(s, 'type: want a string'), key: readString(s, 'key: want a string'), headers: readHeaders(s) };
  const value = s.skip();
  const data = new Scanner(value).head();
  const opaque = data.family === 'bin';
  for (let i = 5; i < n; i++) s.skip();
  return { ...message, data: opaque ? value.subarray(value.length - data.n) : value, format: opaque ? 'bytes' : 'msgpack' };
}

/** The message in a field m: {type, key, headers: [[key, value]], data, format: 'bytes' or 'msgpack'}. */
export function decodeMessage(buf) {
  const s = new Scanner(buf);
  const message = readMessage(s);
  if (s.at < buf.length) throw new FormatError('bytes after the message', s.at);
  return message;
}

function limited(what, bytes, limit) {
  if (bytes.length > limit) throw new FormatError(`${what}: ${bytes.length} bytes, at most ${limit}`);
  return str(bytes);
}

/** The bytes of a field m. It refuses what a writer has to refuse. */
export function encodeMessage({ type, key, headers, data, format }) {
  if (headers.length > LIMITS.headers) throw new FormatError(`${headers.length} headers, at most ${LIMITS.headers}`);
  if (new Set(headers.map(([name]) => name.toString('latin1'))).size < headers.length) throw new FormatError('a header twice');
  if (format === 'msgpack') {
    const s = new Scanner(data);
    s.skip();
    if (s.at < data.length) throw new FormatError('bytes after the msgpack value', s.at);
  }
  return Buffer.concat([
    arrayHead(5), uint(VERSION), limited('type', type, LIMITS.type), limited('key', key, LIMITS.key), mapHead(headers.length),
    ...headers.flatMap(([name, value]) => [limited('header', name, LIMITS.headerKey), limited('header', value, LIMITS.headerValue)]),
    format === 'msgpack' ? data : bin(data),
  ]);
}

// ---- section 4: the pack --------------------------------------------------

/** The messages in a field b. */
export function decodePack(buf) {
  const s = new Scanner(buf);
  const n = readArray(s, 4);
  const count = s.want('int', 'want a count');
  if (count.value < 1 || count.value > MAX_PACK) throw new FormatError('want a count', count.start);
  const compression = s.want('int', 'want a compression');
  if (![0, 1].includes(compression.value)) throw new FormatError('compressed by a newer version', compression.start);
  const body = s.want('bin', 'body: want bytes');
  const messages = compression.value === 0 ? new Scanner(buf, s.at, s.at + body.n) : inflated(buf, s.at, s.at + body.n);
  s.bytes(body.n);
  for (let i = 4; i < n; i++) s.skip();
  if (s.at < buf.length) throw new FormatError('bytes after the pack', s.at);

  const all = [];
  while (all.length < count.value) all.push(readMessage(messages));
  if (messages.at < messages.end) throw new FormatError('bytes after the last message', messages.at);
  return all;
}

function inflated(buf, at, end) {
  if (!zlib.zstdDecompressSync) throw new FormatError('compressed by zstd, which Node.js reads from 22.15 on', at);
  try {
    return new Scanner(zlib.zstdDecompressSync(buf.subarray(at, end), { maxOutputLength: MAX_INFLATED }));
  } catch (err) {
    throw new FormatError(`no zstd frame: ${err.message}`, at);
  }
}

/** The bytes of a field b, of encoded messages. */
export function encodePack(messages) {
  if (messages.length < 1 || messages.length > MAX_PACK) throw new FormatError(`${messages.length} messages, 1 to ${MAX_PACK}`);
  return Buffer.concat([arrayHead(4), uint(VERSION), uint(messages.length), uint(0), bin(Buffer.concat(messages))]);
}

// ---- section 5: the entry -------------------------------------------------

// The id of an entry as a whole, or null: it is foreign.
function entryId({ brand, node, exclusive }, { id, fields }, field) {
  if (!brand || !(field('m') ?? field('b'))) return null;
  const derived = exclusive ? hostId(brand, id) : serverId(brand, node, id);
  const stored = field('id');
  if (derived === null || stored === undefined) return derived;
  try {
    if (parseId(stored).brand !== brand) return null;
  } catch (err) {
    if (err instanceof FormatError) return null;
    throw err;
  }
  const text = stored.toString('latin1');
  return exclusive && text !== derived ? null : text;
}

/**
 * The records of an entry {id: {ms, seq}, fields: [[name, value]]}, read with the identity {brand, node, exclusive} of its
 * stream. A record has id, position and addr; then the parts of a message; or fields, when it is foreign (id null) or
 * undecodable (error says why).
 */
export function records(identity, entry) {
  const field = (name) => entry.fields.find(([n]) => n.toString('latin1') === name)?.[1];
  const id = entryId(identity, entry, field);
  const whole = { id, position: formatPosition(entry.id, 0), addr: formatEntryId(entry.id) };
  if (id === null) return [{ ...whole, fields: entry.fields }];
  try {
    const one = field('m');
    if (one) return [{ ...whole, ...decodeMessage(one) }];
    return packed(identity, entry.id, id, decodePack(field('b')));
  } catch (err) {
    if (!(err instanceof FormatError)) throw err;
    return [{ ...whole, fields: entry.fields, error: err }];
  }
}

// The entry id is the address of the last message, the others are the sequences below it.
function packed({ brand, node, exclusive }, entry, lastId, messages) {
  const below = BigInt(messages.length - 1);
  if (entry.seq < below) throw new FormatError('more messages than there are sequences');
  return messages.map((message, i) => {
    const addr = { ms: entry.ms, seq: entry.seq - below + BigInt(i) };
    const derived = exclusive ? hostId(brand, addr) : serverId(brand, node, addr);
    const id = i === messages.length - 1 ? lastId : derived;
    return { id, position: formatPosition(entry, i), addr: formatEntryId(addr), ...message };
  });
}
