package tier

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/echomq/pipeline/codec"
)

// PartitionScope is the scope of one partition: "shop.3".
func PartitionScope(scope string, k int) string { return scope + "." + strconv.Itoa(k) }

// Layout is how many partitions a scope has: "8", or "8>16" while it is changed from 8 to 16 and nobody may append. The
// zero value: it has none.
type Layout struct {
	Count int
	Next  int // 0: it is not being changed
}

// ParseLayout reads a layout as the scope's hash has it.
func ParseLayout(s string) (Layout, error) {
	from, to, changing := strings.Cut(s, ">")
	l := Layout{Count: count(from)}
	if changing {
		l.Next = count(to)
	}
	if l.Count < 0 || l.Next < 0 {
		return Layout{}, fmt.Errorf("tier: %.64q is no number of partitions: 1 to %d, or two of them as in 8>16", s, codec.MaxPartitions)
	}
	return l, nil
}

// count reads 1 to MaxPartitions without leading zeros; else -1.
func count(s string) int {
	if n, err := strconv.Atoi(s); err == nil && 1 <= n && n <= codec.MaxPartitions && strconv.Itoa(n) == s {
		return n
	}
	return -1
}

func (l Layout) String() string {
	if l.Next != 0 {
		return strconv.Itoa(l.Count) + ">" + strconv.Itoa(l.Next)
	}
	return strconv.Itoa(l.Count)
}

// Span is how many scopes the layout takes: while it is changed, those that come and those that go.
func (l Layout) Span() int { return max(l.Count, l.Next) }

// Partition is the mark of a scope that is a partition: "shop 3 8". An index at or above the count is that of one that a
// change has left behind: its log can be read, and nobody appends to it.
type Partition struct {
	Of    string // the partitioned scope
	Index int
	Layout
}

// ParsePartition reads a mark.
func ParsePartition(s string) (p Partition, err error) {
	words := strings.Split(s, " ")
	if len(words) == 3 {
		p.Of, p.Index = words[0], index(words[1])
		if p.Layout, err = ParseLayout(words[2]); err == nil && p.Index >= 0 && CheckName("scope", p.Of) == nil {
			return p, nil
		}
	}
	return Partition{}, fmt.Errorf("tier: %.64q is no mark of a partition, as in \"shop 3 8\"", s)
}

func index(s string) int {
	if k, err := strconv.Atoi(s); err == nil && 0 <= k && k < codec.MaxPartitions && strconv.Itoa(k) == s {
		return k
	}
	return -1
}

// String is the mark; empty: none.
func (p Partition) String() string {
	if p.Of == "" {
		return ""
	}
	return fmt.Sprintf("%s %d %s", p.Of, p.Index, p.Layout)
}

// Scope is the partition's own scope.
func (p Partition) Scope() string { return PartitionScope(p.Of, p.Index) }

// Declaration is what stands behind the brand of a stream in the partition, so that a writer that counts otherwise is
// refused by every append.
func (p Partition) Declaration() string {
	return fmt.Sprintf("%s%d/%s", PartitionMark, p.Index, p.Layout)
}

// CheckPartitionMark refuses what is not that of a partition's Declaration.
func CheckPartitionMark(mark string) error {
	text, _ := strings.CutPrefix(mark, PartitionMark)
	_, err := ParsePartition("x " + strings.Replace(text, "/", " ", 1))
	return err
}
