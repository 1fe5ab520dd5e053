package tier

import (
	"context"
	_ "embed"
	"slices"
	"strconv"
)

var (
	//go:embed lua/scan.lua
	scanSource string
	scanScript = NewScript("scan", scanSource)
)

// scanPage is how many keys of the node one call looks at: about a millisecond of the server's time.
const scanPage = 5000

// KeysBelow lists the keys that stand below one, sorted: those whose names go on with a colon behind it. It walks over
// all keys of the node that serves the key, so it is for what an operator asks, and not for what runs all day. A key that
// comes or goes meanwhile may be listed or not.
func (c *Client) KeysBelow(ctx context.Context, key string) ([]string, error) {
	var keys []string
	for cursor := "0"; ; {
		m, err := c.Run(ctx, Call{Script: scanScript, Keys: []string{key}, Args: []string{cursor, key + ":*", strconv.Itoa(scanPage)}})
		if err != nil {
			return nil, err
		}
		page, err := Parts("scan", m, 2)
		if err != nil {
			return nil, err
		}
		names, err := page[1].AsStrSlice()
		if err != nil {
			return nil, Wrap("scan", key, err)
		}
		keys = append(keys, names...)
		if cursor, err = page[0].ToString(); err != nil {
			return nil, Wrap("scan", key, err)
		}
		if cursor == "0" {
			slices.Sort(keys)
			return slices.Compact(keys), nil
		}
	}
}

// ScanHash goes through a hash of any size by pages. A field may come twice when the hash is changed meanwhile.
func (c *Client) ScanHash(ctx context.Context, key string, row func(field, value string)) error {
	var cursor uint64
	for {
		m, err := c.Do(ctx, key, c.B().Hscan().Key(key).Cursor(cursor).Count(1000).Build())
		if err != nil {
			return err
		}
		page, err := m.AsScanEntry()
		if err != nil {
			return Wrap("HSCAN", key, err)
		}
		for i := 0; i+1 < len(page.Elements); i += 2 {
			row(page.Elements[i], page.Elements[i+1])
		}
		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
	}
}
