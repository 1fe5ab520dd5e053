// Appends the messages that stand on standard input, one JSON object a line, to a stream that our writers have declared;
// with --pack all of them as one entry, all or none. Prints their ids.
//
//   node write.mjs [--url URL] [--pack] scope/stream < messages

import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { encodeMessage, encodePack } from './format.mjs';
import { parseEntryId, serverId } from './ids.mjs';
import { message } from './json.mjs';
import { identity, print, run } from './stream.mjs';
import { ServerError } from './resp.mjs';

const MAX_PACK = 4095; // one less than readers take, see append.lua
const MAX_MESSAGE = 8 << 20;

const script = readFileSync(new URL('append.lua', import.meta.url));

const refusals = {
  undeclared: 'the stream is not declared, or in another way than when this program began: begin again',
  removed: 'the stream was removed',
  range: 'the ids of the stream are at their end',
};

// append resolves with the addresses of the n messages that value holds.
async function append(client, address, stream, name, value, n) {
  if (value.length > MAX_MESSAGE) throw new Error(`${value.length} bytes, at most ${MAX_MESSAGE}`);
  let reply;
  try {
    reply = String(await client.call('EVAL', script, 2, address.log, address.scope, address.field, stream.brand, stream.node, name, value, n));
  } catch (err) {
    if (err instanceof ServerError) throw err; // refused, and nothing written
    throw new Error(`${err.message}; it may or may not stand in the stream: look before you send it again`);
  }
  if (reply in refusals) throw new Error(refusals[reply]);
  const { ms, seq } = parseEntryId(reply);
  return Array.from({ length: n }, (_, i) => ({ ms, seq: seq - BigInt(n - 1 - i) }));
}

const options = { pack: { type: 'boolean', default: false } };

await run('node write.mjs [--url URL] [--pack] scope/stream < messages', options, async (client, address, { pack }) => {
  const stream = await identity(client, address);
  if (stream.exclusive) throw new Error('the stream is exclusive: its one writer mints the ids');
  const printIds = async (addresses) => {
    for (const addr of addresses) await print(serverId(stream.brand, stream.node, addr));
  };
  const packed = [];
  let n = 0;
  for await (const json of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    n++;
    try {
      const bytes = encodeMessage(message(json));
      if (!pack) await printIds(await append(client, address, stream, 'm', bytes, 1));
      else if (packed.push(bytes) > MAX_PACK) throw new Error(`a pack holds ${MAX_PACK} messages at most`);
    } catch (err) {
      throw new Error(`line ${n}: ${err.message}`);
    }
  }
  if (packed.length > 0) await printIds(await append(client, address, stream, 'b', encodePack(packed), packed.length));
});
