// Checks every vector of codec/FORMAT.md, or of the file that is given: bytes to messages and, where they must be
// written like this, messages to bytes.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import zlib from 'node:zlib';
import { decodeMessage, decodePack, encodeMessage, encodePack, records } from './format.mjs';
import { partition } from './partition.mjs';
import { formatEntryId, formatId, FormatError, hostEntry, hostId, parseEntryId, parseId, parts, serverEntry, serverId } from './ids.mjs';

const hex = (buf) => buf.toString('hex');
const squeezed = (text) => text.replaceAll(' ', '');
const bytes = (text) => Buffer.from(squeezed(text), 'hex');

const shown = (m) => ({
  type: m.type.toString(), key: m.key.toString(), headers: m.headers.map((h) => h.map(String)), data: hex(m.data), format: m.format,
});

const wanted = (m) => ({ ...m, data: squeezed(m.data) });

const given = (m) => ({
  type: Buffer.from(m.type), key: Buffer.from(m.key), headers: m.headers.map((h) => h.map((text) => Buffer.from(text))),
  data: bytes(m.data), format: m.format,
});

function refused(decode, v) {
  assert.throws(() => decode(bytes(v.hex)), (err) => {
    assert.deepEqual({ what: err.message, offset: err.offset }, { what: v.what, offset: v.offset });
    return err instanceof FormatError;
  });
}

const checks = {
  id(v) {
    const { brand, snowflake } = parseId(v.id);
    assert.equal(String(snowflake), v.snowflake);
    assert.equal(formatId(brand, BigInt(v.snowflake)), v.id);
    assert.deepEqual(parts(snowflake), { ms: BigInt(v.unix_ms), node: v.node, seq: v.seq });
    assert.equal(formatEntryId(serverEntry(snowflake)), v.server_entry);
    assert.equal(formatEntryId(hostEntry(snowflake)), v.host_entry);
    assert.equal(serverId(brand, v.node, parseEntryId(v.server_entry)), v.id);
    assert.equal(hostId(brand, parseEntryId(v.host_entry)), v.id);
  },
  'bad id'(v) {
    assert.throws(() => parseId(v.id), { message: v.reason });
  },
  message(v) {
    assert.equal(v.messages.length, 1);
    assert.deepEqual(shown(decodeMessage(bytes(v.hex))), wanted(v.messages[0]));
    if (v.writes) assert.equal(hex(encodeMessage(given(v.messages[0]))), squeezed(v.hex));
  },
  'bad message': (v) => refused(decodeMessage, v),
  pack(v) {
    assert.deepEqual(decodePack(bytes(v.hex)).map(shown), v.messages.map(wanted));
    if (v.writes) assert.equal(hex(encodePack(v.messages.map((m) => encodeMessage(given(m))))), squeezed(v.hex));
  },
  'compressed pack'(v) {
    if (zlib.zstdDecompressSync) checks.pack(v);
    else assert.throws(() => decodePack(bytes(v.hex)), { message: /zstd/ });
  },
  'bad pack': (v) => refused(decodePack, v),
  entry(v) {
    const fields = v.fields.map(([name, value]) => [Buffer.from(name), bytes(value)]);
    const got = records(v.identity, { id: parseEntryId(v.entry), fields }).map((r) => ({
      id: r.id ?? '', position: r.position, addr: r.addr, ...(r.type && { type: r.type.toString() }), ...(r.error && { what: r.error.message }),
    }));
    assert.deepEqual(got, v.records);
  },
  partition(v) {
    assert.equal(partition(Buffer.from(v.key), v.partitions), v.partition);
  },
};

const file = process.argv[2] ?? new URL('../../../codec/FORMAT.md', import.meta.url);
const blocks = [...readFileSync(file, 'utf8').matchAll(/^```json\n(.*?)^```$/gms)].map((match) => JSON.parse(match[1]));
let failed = 0;
for (const v of blocks) {
  try {
    assert.ok(Object.hasOwn(checks, v.vector), `no check for a vector of this kind: ${v.vector}`);
    checks[v.vector](v);
  } catch (err) {
    failed++;
    console.error(`${JSON.stringify(v)}\n  ${err.message}`);
  }
}
console.log(`${blocks.length} vectors, ${failed} failed`);
process.exitCode = failed > 0 || blocks.length === 0 ? 1 : 0;
