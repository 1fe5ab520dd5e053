package codec

// Brand names a kind of thing: three capital ASCII letters. Inside a scope a
// brand belongs to one stream.
type Brand string

const brandLen = 3

// ParseBrand returns s as a Brand, or an *IDError with reason "brand".
func ParseBrand(s string) (Brand, error) {
	b := Brand(s)
	if !b.Valid() {
		return "", newIDError(s, ReasonBrand)
	}
	return b, nil
}

// Valid reports whether b is three capital ASCII letters.
func (b Brand) Valid() bool {
	if len(b) != brandLen {
		return false
	}
	for i := range brandLen {
		if b[i] < 'A' || b[i] > 'Z' {
			return false
		}
	}
	return true
}
