// Which partition a key's messages belong to: codec/FORMAT.md, section 7. node:zlib has crc32 from Node 20.15 on.

function crc32(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

export const partition = (key, partitions) => crc32(key) % partitions;
