package consumer

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q fifo[int]
		var want []int
		n := 0
		t.Repeat(map[string]func(*rapid.T){
			"push": func(*rapid.T) {
				n++
				q.push(n)
				want = append(want, n)
			},
			"pop": func(t *rapid.T) {
				if len(want) == 0 {
					t.Skip("empty")
				}
				require.Equal(t, want[0], q.first())
				q.pop()
				want = want[1:]
			},
			"": func(t *rapid.T) { require.Equal(t, len(want), q.count) },
		})
	})
}
