// A client of the server's protocol (RESP2), as small as it can be: commands go out in order, replies come back in that
// order. Strings arrive as Buffers, since they are bytes; integers as numbers, those that a number cannot hold as BigInt.

import net from 'node:net';

/** What the server refused; code is its first word, as in NOGROUP. */
export class ServerError extends Error {
  constructor(text) {
    super(text);
    this.code = text.split(' ', 1)[0];
  }
}

/** Connects to redis://[user:password@]host:port[/db], valkey://... or unix:///path[?db=n]. */
export async function connect(url) {
  const u = new URL(url);
  if (!['redis:', 'valkey:', 'unix:'].includes(u.protocol)) {
    throw new Error('the server URL starts with redis://, valkey:// or unix:// (this client has no TLS)');
  }
  const unix = u.protocol === 'unix:';
  const socket = net.connect(unix ? { path: decodeURIComponent(u.pathname) }
    : { host: u.hostname.replace(/^\[|\]$/g, '') || 'localhost', port: Number(u.port || 6379) });
  const client = new Client(socket);
  await client.connected;
  const password = decodeURIComponent(u.password);
  const db = u.searchParams.get('db') ?? (unix ? '' : u.pathname.slice(1));
  try {
    if (password) await client.call('AUTH', ...(u.username ? [decodeURIComponent(u.username)] : []), password);
    if (db) await client.call('SELECT', db);
  } catch (err) {
    client.close(); // an open connection keeps the program alive
    throw err;
  }
  return client;
}

class Client {
  #socket;
  #waiting = []; // of the commands that are not answered, the oldest first
  #broken = null;

  constructor(socket) {
    this.#socket = socket;
    this.connected = new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    const parser = replies((reply) => {
      const { resolve, reject } = this.#waiting.shift();
      reply instanceof ServerError ? reject(reply) : resolve(reply);
    });
    parser.next();
    socket.on('data', (chunk) => {
      try {
        parser.next(chunk);
      } catch (err) {
        socket.destroy(err);
      }
    });
    socket.on('error', (err) => this.#break(err));
    socket.on('close', () => this.#break(new Error('the connection was closed')));
  }

  #break(err) {
    this.#broken ??= err;
    for (const { reject } of this.#waiting.splice(0)) reject(this.#broken);
  }

  /** Sends one command and resolves with its reply. A call that fails with anything but a ServerError may have happened. */
  call(...args) {
    return new Promise((resolve, reject) => {
      if (this.#broken) return reject(this.#broken);
      this.#waiting.push({ resolve, reject });
      const parts = [Buffer.from(`*${args.length}\r\n`)];
      for (const arg of args) {
        const bytes = Buffer.isBuffer(arg) ? arg : Buffer.from(String(arg));
        parts.push(Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from('\r\n'));
      }
      this.#socket.write(Buffer.concat(parts));
    });
  }

  close() {
    this.#socket.end();
  }
}

// replies parses without end: each yield asks for the next chunk. So a reply of any size is looked at once.
function* replies(deliver) {
  let chunk = Buffer.alloc(0);
  let at = 0;

  function* bytes(n) {
    const parts = [];
    while (n > 0) {
      if (at === chunk.length) {
        chunk = yield;
        at = 0;
      }
      const part = chunk.subarray(at, at + n);
      parts.push(part);
      at += part.length;
      n -= part.length;
    }
    return parts.length === 1 ? parts[0] : Buffer.concat(parts);
  }

  function* line() {
    let text = '';
    let end;
    while ((end = chunk.indexOf(0x0d, at)) < 0) {
      text += chunk.toString('latin1', at);
      chunk = yield;
      at = 0;
    }
    text += chunk.toString('latin1', at, end);
    at = end;
    yield* bytes(2);
    return text;
  }

  function* reply() {
    const head = yield* line();
    const rest = head.slice(1);
    switch (head[0]) {
      case '+':
        return Buffer.from(rest, 'latin1');
      case '-':
        return new ServerError(Buffer.from(rest, 'latin1').toString());
      case ':':
        return Number.isSafeInteger(Number(rest)) ? Number(rest) : BigInt(rest);
      case '$': {
        if (rest === '-1') return null;
        const value = yield* bytes(Number(rest));
        yield* bytes(2);
        return value;
      }
      case '*': {
        if (rest === '-1') return null;
        const values = [];
        for (let n = Number(rest); n > 0; n--) values.push(yield* reply());
        return values;
      }
      default:
        throw new Error(`not a reply of RESP2: ${JSON.stringify(head)}`);
    }
  }

  for (;;) deliver(yield* reply());
}
