package tiertest

import "io"

// The framing is tested by itself: a fuzzer cannot reach it through a proxy.

// Commands and Replies cut all of r into frames, and return what ended them.
func Commands(r io.Reader) (raw [][]byte, args [][]string, err error) {
	f := newFrames(r)
	for {
		b, a, err := f.command()
		if err != nil {
			return raw, args, err
		}
		raw, args = append(raw, append([]byte(nil), b...)), append(args, a)
	}
}

func Replies(r io.Reader) (raw [][]byte, pushes int, err error) {
	f := newFrames(r)
	for {
		b, push, err := f.reply()
		if err != nil {
			return raw, pushes, err
		}
		if push {
			pushes++
		}
		raw = append(raw, append([]byte(nil), b...))
	}
}

// Encode and KindsOf are not for the users of the package.
var (
	Encode  = encode
	KindsOf = kindsOf
)
