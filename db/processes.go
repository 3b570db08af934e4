package db

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/share"
)

// A Process describes a process that has the database open.
type Process struct {
	PID     int
	Program string    // name of the program, without directory and arguments, at most 64 bytes
	Since   time.Time // when the process opened the database; zero if it is not known
	Role    Role
	Version string // of the program; empty if it is not known
}

// A Role says what a process does among those that have a database open.
type Role uint8

const (
	// RoleUnknown is a role of another release.
	RoleUnknown Role = iota
	// RoleLeader writes the files, for all processes.
	RoleLeader
	// RoleFollower reads the files, and sends its writes to the leader. It may lead later.
	RoleFollower
	// RoleReader reads a database that no process writes, or a published folder.
	RoleReader
)

// roleNames are the texts of the roles, by number.
var roleNames = []string{"unknown", "leader", "follower", "reader"}

// String returns "unknown", "leader", "follower" or "reader".
func (r Role) String() string {
	if int(r) >= len(roleNames) {
		return fmt.Sprintf("Role(%d)", uint8(r))
	}
	return roleNames[r]
}

// MarshalText implements encoding.TextMarshaler.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. Any other text is RoleUnknown.
func (r *Role) UnmarshalText(b []byte) error {
	*r = Role(max(0, slices.Index(roleNames, string(b))))
	return nil
}

// Processes lists the processes that have the database open, the leading one first: it writes the
// files, and the others send their writes to it.
func (db *DB) Processes(ctx context.Context) ([]Process, error) {
	err := db.beginAsking()
	var list []share.Process
	if err == nil {
		defer db.engine.End()
		list, err = db.member.Processes(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("db: processes: %w", engine.Translate(err))
	}
	processes := make([]Process, len(list))
	for i, p := range list {
		processes[i] = Process{PID: p.PID, Program: p.Program, Since: p.Since, Version: p.Version}
		_ = processes[i].Role.UnmarshalText([]byte(p.Role)) // never fails
	}
	return processes, nil
}
