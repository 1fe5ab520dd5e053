package consumer

import "fmt"

// Order says which messages of a source wait for each other. The zero value is None.
type Order uint8

const (
	// None lets every message be handled at any time.
	None Order = iota
	// ByKey has the messages of one key handled in the order of their positions, one at a time; other keys go on meanwhile.
	// Messages without a key wait for nobody.
	ByKey
	// Strict has all messages handled in the order of their positions, one at a time.
	Strict
)

var orders = [...]string{None: "none", ByKey: "key", Strict: "strict"}

// String is none, key or strict.
func (o Order) String() string {
	if int(o) < len(orders) {
		return orders[o]
	}
	return fmt.Sprintf("Order(%d)", uint8(o))
}

// ParseOrder reads what String writes.
func ParseOrder(text string) (Order, error) {
	for o, name := range orders {
		if name == text {
			return Order(o), nil
		}
	}
	return None, fmt.Errorf("consumer: order is %.40q, want none, key or strict", text)
}

// MarshalText returns String.
func (o Order) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText is [ParseOrder].
func (o *Order) UnmarshalText(text []byte) (err error) {
	*o, err = ParseOrder(string(text))
	return err
}
