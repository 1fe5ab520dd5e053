//go:build race

package main_test

func init() { raceFlags = []string{"-race"} }
