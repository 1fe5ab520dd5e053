package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"

	_ "modernc.org/sqlite"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/tier"
)

// store is a database file: what each customer has ordered, what could not be counted, and how far the fold is. Tables
// belong to a version, so that the next one is made beside them.
type store struct {
	db      *sql.DB
	version int
}

const schema = `
CREATE TABLE IF NOT EXISTS progress (version INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, checkpoint TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS totals_%[1]d (customer TEXT PRIMARY KEY, orders INTEGER NOT NULL, cents INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS refused_%[1]d (message TEXT PRIMARY KEY, reason TEXT NOT NULL);`

// openStore makes what is missing of the tables of a version. A transaction begins with the write lock, which another process
// may hold for five seconds; what is committed is on the disk.
func openStore(ctx context.Context, file string, version int) (*store, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)")
	if err != nil {
		return nil, err
	}
	s := &store{db, version}
	if _, err := db.ExecContext(ctx, s.sql(schema)); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// sql puts the version into a statement.
func (s *store) sql(text string) string { return fmt.Sprintf(text, s.version) }

// Begin implements projection.Store: from here on the owner of a lower epoch changes nothing.
func (s *store) Begin(ctx context.Context, epoch uint64) (codec.EntryID, error) {
	var checkpoint string
	err := s.db.QueryRowContext(ctx, `INSERT INTO progress VALUES (?, ?, '0-0')
		ON CONFLICT DO UPDATE SET epoch = excluded.epoch WHERE epoch <= excluded.epoch RETURNING checkpoint`, s.version, epoch).Scan(&checkpoint)
	if errors.Is(err, sql.ErrNoRows) {
		return codec.EntryID{}, tier.ErrFenced
	}
	if err != nil {
		return codec.EntryID{}, err
	}
	return codec.ParseEntryID(checkpoint)
}

// Apply implements projection.Store.
func (s *store) Apply(ctx context.Context, epoch uint64, batch []*consumer.Delivery, checkpoint codec.EntryID) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing, once it is committed
	moved, err := tx.ExecContext(ctx, `UPDATE progress SET checkpoint = ? WHERE version = ? AND epoch = ?`, checkpoint.String(), s.version, epoch)
	if err != nil {
		return err
	}
	if n, err := moved.RowsAffected(); err != nil {
		return err
	} else if n == 0 {
		return tier.ErrFenced
	}
	for _, d := range batch {
		if err := s.count(ctx, tx, d); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// count adds an order, or notes why not: an error here would stop all, and come again for ever.
func (s *store) count(ctx context.Context, tx *sql.Tx, d *consumer.Delivery) error {
	cents, err := centsOf(d)
	if err != nil {
		_, err = tx.ExecContext(ctx, s.sql(`INSERT INTO refused_%d VALUES (?, ?) ON CONFLICT DO NOTHING`), d.Position.String(), err.Error())
		return err
	}
	_, err = tx.ExecContext(ctx, s.sql(`INSERT INTO totals_%d VALUES (?, 1, ?)
		ON CONFLICT DO UPDATE SET orders = orders + 1, cents = cents + excluded.cents`), d.Key, cents)
	return err
}

func centsOf(d *consumer.Delivery) (int, error) {
	order, err := payload.Decode(&d.Message)
	if err != nil {
		return 0, err
	}
	total, err := strconv.ParseFloat(order.Total, 64)
	if err != nil || math.Abs(total) > 1e9 {
		return 0, fmt.Errorf("%q is no total", order.Total)
	}
	return int(math.Round(total * 100)), nil
}

// totals are those of all customers, by name.
func (s *store) totals(ctx context.Context) (list []total, err error) {
	rows, err := s.db.QueryContext(ctx, s.sql(`SELECT customer, orders, cents FROM totals_%d ORDER BY customer`))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var t total
		if err := rows.Scan(&t.customer, &t.orders, &t.cents); err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, rows.Err()
}

type total struct {
	customer      string
	orders, cents int
}

func (s *store) refused(ctx context.Context) (n int, err error) {
	err = s.db.QueryRowContext(ctx, s.sql(`SELECT count(*) FROM refused_%d`)).Scan(&n)
	return n, err
}
