//go:build !linux

package torture

import (
	"context"
	"fmt"
)

func (r *run) cuts(_ context.Context, name string, _ func() bool) error {
	return fmt.Errorf("%w on %s: they need Linux", errNoCuts, name)
}
