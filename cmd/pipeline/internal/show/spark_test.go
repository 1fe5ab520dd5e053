package show_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/cmd/pipeline/internal/show"
)

func TestSpark(t *testing.T) {
	for _, tc := range []struct {
		numbers []int64
		want    string
	}{
		{nil, ""},
		{[]int64{0, 0}, "▁▁"},
		{[]int64{0, 1, 350, 700}, "▁▂▅█"},
		{[]int64{1, 1}, "██"},
	} {
		require.Equal(t, tc.want, show.Spark(tc.numbers))
	}
}
