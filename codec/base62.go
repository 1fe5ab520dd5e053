package codec

import "math"

// The alphabet ascends in ASCII, and the width is fixed: that is what makes the
// byte order of ids their numeric order.
const (
	alphabet   = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	base62Len  = 11
	maxPayload = "AzL8n0Y58m7" // 2^63-1
	notADigit  = 0xff
)

// digitOf maps a byte to its digit, or to notADigit.
var digitOf = func() (t [256]byte) {
	for i := range t {
		t[i] = notADigit
	}
	for i := range len(alphabet) {
		t[alphabet[i]] = byte(i)
	}
	return t
}()

// putBase62 writes the eleven digits of n, which is 0..2^63-1: the lower six and the upper five side by side, since each
// division waits for the one before it.
func putBase62(dst []byte, n uint64) {
	const half = 6
	const power = 62 * 62 * 62 * 62 * 62 * 62
	_ = dst[base62Len-1]
	upper, lower := n/power, n%power
	for i := base62Len - 1; i >= base62Len-half; i-- {
		dst[i] = alphabet[lower%62]
		lower /= 62
		if i >= half {
			dst[i-half] = alphabet[upper%62]
			upper /= 62
		}
	}
}

// digitAfter maps a digit to the next one, and the last to the first.
var digitAfter = func() (t [256]byte) {
	for i := range len(alphabet) {
		t[alphabet[i]] = alphabet[(i+1)%len(alphabet)]
	}
	return t
}()

// addOne adds one to eleven digits that are not the highest.
func addOne(digits []byte) {
	for i := base62Len - 1; ; i-- {
		if digits[i] = digitAfter[digits[i]]; digits[i] != alphabet[0] {
			return
		}
	}
}

// base62 reads eleven digits. The reason is empty when they are a payload.
func base62(src []byte) (uint64, Reason) {
	var n uint64
	for _, c := range src[:base62Len] {
		d := digitOf[c]
		if d == notADigit {
			return 0, ReasonAlphabet
		}
		n = n*62 + uint64(d) // may wrap; the text is compared below
	}
	if string(src[:base62Len]) > maxPayload {
		return 0, ReasonRange
	}
	return n & math.MaxInt64, ""
}
