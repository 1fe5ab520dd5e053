// As much of msgpack as the format needs: a scanner over untrusted bytes, and the heads that a writer makes.

import { FormatError } from './ids.mjs';

const MAX_DEPTH = 64;

const number = (n) => (Number.isSafeInteger(Number(n)) ? Number(n) : n); // of a BigInt: a number where that is exact

/** Reads values one after another; every offset in its errors is one of buf. */
export class Scanner {
  constructor(buf, at = 0, end = buf.length) {
    Object.assign(this, { buf, at, end });
  }

  #take(n) {
    if (n > this.end - this.at) throw new FormatError('the value goes on beyond the end', this.at);
    this.at += n;
    return this.at - n;
  }

  #uint(width) {
    const at = this.#take(width);
    return width === 8 ? this.buf.readBigUInt64BE(at) : this.buf.readUIntBE(at, width);
  }

  #int(width) {
    const at = this.#take(width);
    return width === 8 ? this.buf.readBigInt64BE(at) : this.buf.readIntBE(at, width);
  }

  // A length or a count is believed only as far as there are bytes.
  #sized(family, n, each = 1) {
    if (n * each > this.end - this.at) {
      throw new FormatError(`declared ${each === 1 && family !== 'array' ? 'length' : 'count'} is beyond the end`, this.at);
    }
    return { family, n };
  }

  #ext(n) {
    const type = this.#int(1);
    return { ...this.#sized('ext', n), type };
  }

  /** The next value's family, and value, or n: its bytes, elements or pairs follow. start is where it begins. */
  head() {
    const start = this.at;
    return { start, ...this.#head(this.#uint(1), start) };
  }

  #head(b, start) {
    if (b <= 0x7f) return { family: 'int', value: b };
    if (b <= 0x8f) return this.#sized('map', b & 0x0f, 2);
    if (b <= 0x9f) return this.#sized('array', b & 0x0f);
    if (b <= 0xbf) return this.#sized('str', b & 0x1f);
    if (b >= 0xe0) return { family: 'int', value: b - 256 };
    switch (b) {
      case 0xc0: return { family: 'nil', value: null };
      case 0xc2: return { family: 'bool', value: false };
      case 0xc3: return { family: 'bool', value: true };
      case 0xc4: case 0xc5: case 0xc6: return this.#sized('bin', this.#uint(1 << (b - 0xc4)));
      case 0xc7: case 0xc8: case 0xc9: return this.#ext(this.#uint(1 << (b - 0xc7)));
      case 0xca: return { family: 'float', value: this.buf.readFloatBE(this.#take(4)) };
      case 0xcb: return { family: 'float', value: this.buf.readDoubleBE(this.#take(8)) };
      case 0xcc: case 0xcd: case 0xce: case 0xcf: return { family: 'int', value: number(this.#uint(1 << (b - 0xcc))) };
      case 0xd0: case 0xd1: case 0xd2: case 0xd3: return { family: 'int', value: number(this.#int(1 << (b - 0xd0))) };
      case 0xd4: case 0xd5: case 0xd6: case 0xd7: case 0xd8: return this.#ext(1 << (b - 0xd4));
      case 0xd9: case 0xda: case 0xdb: return this.#sized('str', this.#uint(1 << (b - 0xd9)));
      case 0xdc: case 0xdd: return this.#sized('array', this.#uint(2 << (b - 0xdc)));
      case 0xde: case 0xdf: return this.#sized('map', this.#uint(2 << (b - 0xde)), 2);
      default: throw new FormatError('not msgpack', start); // c1
    }
  }

  /** The next head, which has to be of a family. */
  want(family, what) {
    const head = this.head();
    if (head.family !== family) throw new FormatError(what, head.start);
    return head;
  }

  /** The n bytes that follow a head. */
  bytes(n) {
    const at = this.#take(n);
    return this.buf.subarray(at, at + n);
  }

  /** Passes one value, whatever it is, and returns its bytes. */
  skip(depth = 0) {
    const head = this.head();
    if (head.family === 'array' || head.family === 'map') {
      if (depth === MAX_DEPTH) throw new FormatError('nested too deep', head.start);
      for (let n = head.family === 'map' ? head.n * 2 : head.n; n > 0; n--) this.skip(depth + 1);
    } else if (head.n) {
      this.#take(head.n);
    }
    return this.buf.subarray(head.start, this.at);
  }
}

// head makes the shortest of the forms: [limit, first byte, bytes of the length], the first with the length in it.
function head(n, forms) {
  const [, first, width] = forms.find(([limit]) => n < limit);
  const out = Buffer.alloc(1 + width);
  out[0] = width === 0 ? first | n : first;
  if (width > 0) out.writeUIntBE(n, 1, width);
  return out;
}

const FORMS = {
  str: [[32, 0xa0, 0], [256, 0xd9, 1], [65536, 0xda, 2], [2 ** 32, 0xdb, 4]],
  bin: [[256, 0xc4, 1], [65536, 0xc5, 2], [2 ** 32, 0xc6, 4]],
  array: [[16, 0x90, 0], [65536, 0xdc, 2], [2 ** 32, 0xdd, 4]],
  map: [[16, 0x80, 0], [65536, 0xde, 2], [2 ** 32, 0xdf, 4]],
  uint: [[128, 0x00, 0], [256, 0xcc, 1], [65536, 0xcd, 2], [2 ** 32, 0xce, 4]],
};

export const uint = (n) => head(n, FORMS.uint);
export const arrayHead = (n) => head(n, FORMS.array);
export const mapHead = (n) => head(n, FORMS.map);
export const str = (bytes) => Buffer.concat([head(bytes.length, FORMS.str), bytes]);
export const bin = (bytes) => Buffer.concat([head(bytes.length, FORMS.bin), bytes]);
