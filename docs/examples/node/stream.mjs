// What stands around the messages of a stream: its keys (tier/KEYS.md), its identity, and the arguments of the programs.

import { parseArgs } from 'node:util';
import { connect } from './resp.mjs';

const NAME = /^[A-Za-z0-9._-]{1,128}$/;

/** The keys and field of scope/stream. All keys of a scope are on one slot of a cluster. */
export function keys(address) {
  const [scope, name, ...more] = address.split('/');
  if (!NAME.test(scope) || scope === 'emq' || !NAME.test(name ?? '') || more.length > 0) throw new Error(`not scope/stream: ${address}`);
  const log = `emq:{${scope}}:stream:${name}`;
  return { scope: `emq:{${scope}}:scope`, field: `stream:${name}`, log, group: (group) => `${log}:g:${group}` };
}

/** The identity {brand, node, exclusive} that our writers have declared. */
export async function identity(client, { scope, field }) {
  const [node, declared] = (await client.call('HMGET', scope, 'node', field)).map((value) => value?.toString());
  if (!node || !declared) throw new Error(`nobody has declared the stream: ${scope} has no field "${field}"`);
  if (declared.startsWith('-')) throw new Error('the stream was removed');
  const [brand, ...options] = declared.split(' ');
  return { brand, node: Number(node), exclusive: options.includes('exclusive') };
}

/** Runs main(client, address, options) on the server of --url or $PIPELINE_URL; what fails ends the program with 1. --help prints the usage. */
export async function run(usage, options, main) {
  let client;
  try {
    const { values, positionals } = parseArgs({ options: { url: { type: 'string' }, help: { type: 'boolean' }, ...options }, allowPositionals: true });
    if (values.help) return void await print(`usage: ${usage}`);
    if (positionals.length !== 1) throw new Error(`usage: ${usage}`);
    const address = keys(positionals[0]);
    client = await connect(values.url ?? process.env.PIPELINE_URL ?? 'redis://localhost:6379');
    await main(client, address, values);
  } catch (err) {
    console.error(err.message);
    process.exitCode = 1;
  }
  client?.close();
}

/** Resolves when the line is written: what is not out is not done. */
export function print(line) {
  return new Promise((resolve, reject) => process.stdout.write(`${line}\n`, (err) => (err ? reject(err) : resolve())));
}
