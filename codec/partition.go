package codec

import "hash/crc32"

// MaxPartitions is how many partitions a scope can have. Each takes a node number of its own, of which a deployment has
// 512 for scopes.
const MaxPartitions = 256

// Partition is the partition, 0 to n-1, that messages of a key belong to: CRC-32 (IEEE, as in zlib and gzip) of the key's
// bytes, modulo n. Other languages match it with the same two steps; FORMAT.md has vectors. Another n moves almost every key.
// It panics when n is below 1.
func Partition(key string, n int) int {
	return int(crc32.ChecksumIEEE([]byte(key)) % uint32(n))
}
