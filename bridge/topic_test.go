package bridge_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/bridge"
	"github.com/echomq/pipeline/tier"
)

// TestStreamOf: names stay, other topics become names, B88 and B89 among them, and each goes back to what it was.
func TestStreamOf(t *testing.T) {
	tests := []struct{ name, topic, stream string }{
		{"a name", "orders.placed-v1_x", "orders.placed-v1_x"},
		{"slashes and letters", "shop/ørder", "shop_-2F_-C3_-B8rder"},
		{"braces", "{x}", "_-7Bx_-7D"},
		{"braces the wrong way", "}{", "_-7D_-7B"},
		{"colons, as in our own keys", "a:dead:g", "a_-3Adead_-3Ag"},
		{"the escape", "a_-2F", "a_-5F-2F"},
		{"what looks like an escaped escape", "a_-5F-", "a_-5F-5F-"},
		{"its parts", "a_b-c-_", "a_b-c-_"},
		{"a zero byte", "\x00", "_-00"},
		{"not UTF-8", "\xff", "_-FF"},
		{"nothing", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.stream, bridge.StreamOf(tt.topic))
			topic, err := bridge.TopicOf(tt.stream)
			require.NoError(t, err)
			require.Equal(t, tt.topic, topic)
		})
	}
}

// TestStreamOfAnything: every topic has a stream of its own, whose name is legal unless it is too long.
func TestStreamOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		topic := rapid.OneOf(rapid.StringN(1, -1, 40), rapid.StringMatching(`[_\-25FA./]{1,40}`), rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 40), func(b []byte) string { return string(b) })).Draw(t, "topic")
		name := bridge.StreamOf(topic)
		if len(name) <= tier.MaxName {
			require.NoError(t, tier.CheckName("stream", name))
		}
		back, err := bridge.TopicOf(name)
		require.NoError(t, err)
		require.Equal(t, topic, back)
	})
}

// TestTopicOfRefuses: names that StreamOf does not make are of no topic, or two names would be of one.
func TestTopicOfRefuses(t *testing.T) {
	for _, name := range []string{"a_-", "a_-2", "a_-2f", "a_-GG", "a_-61", "a_-5F", "/"} {
		_, err := bridge.TopicOf(name)
		require.Error(t, err, name)
	}
}

// TestIllegalTopics: what has no stream is refused before anything is sent.
func TestIllegalTopics(t *testing.T) {
	f := onOne(t)
	p, s := f.publisher(t), f.subscriber(t, nil)
	for _, topic := range []string{"", strings.Repeat("x", 129), strings.Repeat("/", 33)} {
		bad := (*tier.NameError)(nil)
		require.ErrorAs(t, p.Publish(topic, note("x")), &bad)
		_, err := s.Subscribe(t.Context(), topic)
		require.ErrorAs(t, err, &bad)
		require.ErrorAs(t, s.SubscribeInitialize(topic), &bad)
	}
}
