// Ids and entry ids: section 1 of codec/FORMAT.md. Their numbers have up to 64 bits, so they are BigInt.

/** A rule of the format that bytes break; offset is where, counted from the beginning of the field. */
export class FormatError extends Error {
  constructor(what, offset) {
    super(what);
    this.offset = offset;
  }
}

const EPOCH = 1704067200000n;
const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const HIGHEST = 'AzL8n0Y58m7'; // 2^63 - 1; text of one width compares as the number does

/** parseId returns {brand, snowflake}; the message of the error is the reason. */
export function parseId(bytes) {
  const text = Buffer.from(bytes).toString('latin1'); // one character a byte
  if (text.length !== 14) throw new FormatError('length');
  const [brand, digits] = [text.slice(0, 3), text.slice(3)];
  if (!/^[A-Z]{3}$/.test(brand)) throw new FormatError('brand');
  if (!/^[0-9A-Za-z]{11}$/.test(digits)) throw new FormatError('alphabet');
  if (digits > HIGHEST) throw new FormatError('range');
  let snowflake = 0n;
  for (const digit of digits) snowflake = snowflake * 62n + BigInt(DIGITS.indexOf(digit));
  return { brand, snowflake };
}

export function formatId(brand, snowflake) {
  let digits = '';
  for (let i = 0; i < 11; i++) {
    digits = DIGITS[Number(snowflake % 62n)] + digits;
    snowflake /= 62n;
  }
  return brand + digits;
}

/** The parts of a snowflake. */
export function parts(snowflake) {
  return { ms: (snowflake >> 22n) + EPOCH, node: Number((snowflake >> 12n) & 1023n), seq: Number(snowflake & 4095n) };
}

/** parseEntryId reads <ms>-<seq>. */
export function parseEntryId(text) {
  const [ms, seq] = String(text).split('-');
  return { ms: BigInt(ms), seq: BigInt(seq) };
}

export const formatEntryId = ({ ms, seq }) => `${ms}-${seq}`;

/** A position; the first message of an entry has index 0, which is not written. */
export const formatPosition = (entry, index) => formatEntryId(entry) + (index > 0 ? `#${index}` : '');

const hasTime = (ms) => ms >= EPOCH && ms - EPOCH < 1n << 41n;

/** The id that follows from an entry id in server order, or null. */
export function serverId(brand, node, { ms, seq }) {
  if (!hasTime(ms) || seq > 4095n) return null;
  return formatId(brand, ((ms - EPOCH) << 22n) | (BigInt(node) << 12n) | seq);
}

/** The id that an entry id stands for in host order, or null. */
export function hostId(brand, { ms, seq }) {
  if (!hasTime(ms) || seq > 4194303n) return null;
  return formatId(brand, ((ms - EPOCH) << 22n) | seq);
}

/** Back from ids to entry ids. */
export const serverEntry = (snowflake) => ({ ms: (snowflake >> 22n) + EPOCH, seq: snowflake & 4095n });
export const hostEntry = (snowflake) => ({ ms: (snowflake >> 22n) + EPOCH, seq: snowflake & 4194303n });
