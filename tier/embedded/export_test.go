package embedded

import (
	"bufio"
	"strings"
)

// ReadReply is how a call reads its reply: a server does not send what a fuzzer does.
func ReadReply(s string) (string, error) { return readReply(bufio.NewReader(strings.NewReader(s))) }
