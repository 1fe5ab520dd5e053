// Prints every message of a stream as a line of JSON: all there are, or with --group what a consumer group was not given
// yet, acknowledged when it is printed.
//
//   node read.mjs [--url URL] [--group NAME [--wait SECONDS] [--page ENTRIES]] scope/stream

import { hostname } from 'node:os';
import { records } from './format.mjs';
import { parseEntryId } from './ids.mjs';
import { line } from './json.mjs';
import { identity, print, run } from './stream.mjs';

// entry makes an entry of what XRANGE and XREADGROUP reply: the id, and names and values in turn.
function entry([id, flat]) {
  const fields = [];
  for (let i = 0; i < flat.length; i += 2) fields.push([flat[i], flat[i + 1]]);
  return { id: parseEntryId(id), fields };
}

async function printEntries(stream, entries) {
  for (const raw of entries) {
    for (const record of records(stream, entry(raw))) await print(line(record));
  }
}

const above = (a, b) => a.ms > b.ms || (a.ms === b.ms && a.seq > b.seq);

async function readAll(client, log, stream, page) {
  let last;
  for (;;) {
    // Asked in this order on one connection: if the log still has what was printed last, the page has no hole before it.
    const [entries, [first]] = await Promise.all([
      client.call('XRANGE', log, last ? `(${last}` : '-', '+', 'COUNT', page),
      client.call('XRANGE', log, '-', '+', 'COUNT', 1),
    ]);
    if (last && !(first && !above(parseEntryId(first[0]), parseEntryId(last)))) {
      throw new Error(`the log was trimmed during the read: it was read to ${last}, and begins ${first ? `at ${first[0]}` : 'empty'} now`);
    }
    if (entries.length === 0) return;
    await printEntries(stream, entries);
    last = String(entries.at(-1)[0]);
  }
}

async function readGroup(client, { log, group }, stream, { name, page, wait }) {
  const consumer = `node-${hostname()}`; // the same each time: nobody removes consumers of programs that are not ours
  const lease = Number(await client.call('HGET', group(name), 'lease')) || 30000;
  let stopped = false;
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => { stopped = true; });

  // A blocked read is never cut off: an entry that is given to nobody would lie in the pending list.
  let silent = Date.now();
  while (!stopped && Date.now() - silent < wait) {
    const reply = await client.call('XREADGROUP', 'GROUP', name, consumer, 'COUNT', page, 'BLOCK', Math.max(1, Math.min(500, wait)), 'STREAMS', log, '>');
    if (reply === null) continue;
    const since = Date.now();
    for (const raw of reply[0][1]) {
      await printEntries(stream, [raw]);
      // After the lease others may hold the entry, and an acknowledgement would take it from them.
      if (Date.now() - since > lease / 2) throw new Error('printing took longer than half the lease: what was not acknowledged comes again');
      await client.call('XACK', log, name, raw[0]);
    }
    silent = Date.now();
  }
}

const options = {
  group: { type: 'string' }, wait: { type: 'string' }, page: { type: 'string', default: '100' },
};

await run('node read.mjs [--url URL] [--group NAME [--wait SECONDS] [--page ENTRIES]] scope/stream', options,
  async (client, address, { group, wait, page }) => {
    const stream = await identity(client, address);
    if (group === undefined) return readAll(client, address.log, stream, page);
    try {
      await readGroup(client, address, stream, { name: group, page, wait: wait === undefined ? Infinity : Number(wait) * 1000 });
    } catch (err) {
      if (err.code === 'NOGROUP') err.message += `; to make it: XGROUP CREATE ${address.log} ${group} 0`;
      throw err;
    }
  });
