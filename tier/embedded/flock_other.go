//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package embedded

import (
	"errors"
	"os"
)

func tryFlock(*os.File, bool) (bool, error) {
	return false, errors.New("embedded: a shared server needs file locks, which this system does not have; set PIPELINE_URL")
}

func unflock(*os.File) {}
