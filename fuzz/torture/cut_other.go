//go:build !linux

package torture

import (
	"context"
	"fmt"
)

func (r *run) cuts(_ context.Context, name string, _ func() bool) error {
	return fmt.Errorf("%w: a power cut on %s needs Linux", ErrUnavailable, name)
}
