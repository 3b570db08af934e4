package torture

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vecbolt/vecbolt/db"
)

// memberEnv marks a child process that is a member of the group below this directory.
const memberEnv = "VECBOLT_TORTURE_MEMBER"

// A memberOrder is the instruction for a member.
type memberOrder struct {
	Profile string
	Seed    uint64
	Sync    db.SyncPolicy
}

// memberProcess opens the database beside others and does on command what a line says: a step by
// its number, "barrier" or "close". Steps follow from the seed, so it computes them itself. "begin"
// and a number begins a step, and "end" waits for its end.
func memberProcess(dir string, in io.Reader, out io.Writer) {
	lines := bufio.NewScanner(in)
	var order memberOrder
	var vdb *db.DB
	var t *track
	begin := func() error {
		if err := json.Unmarshal(lines.Bytes(), &order); err != nil {
			return err
		}
		at := slices.IndexFunc(profiles, func(p profile) bool { return p.name == order.Profile })
		if at < 0 {
			return fmt.Errorf("no profile %q", order.Profile)
		}
		t = newTrack(&profiles[at], order.Seed, 0)
		o := profiles[at].options()
		o.Sync, o.SyncEvery = order.Sync, time.Hour // no sync comes by the clock
		var err error
		vdb, err = db.Open(filepath.Join(dir, databaseName), o)
		return err
	}
	begun := make(chan error, 1)
	obey := func(line string) error {
		ctx := context.Background()
		var verb string
		var number int
		switch _, err := fmt.Sscanf(line, "%s %d", &verb, &number); {
		case line == "close":
			return vdb.Close()
		case line == "barrier":
			return vdb.Barrier(ctx)
		case line == "end":
			return <-begun
		case err != nil || verb != "step" && verb != "begin" || number <= t.taken:
			return fmt.Errorf("cannot do %q after step %d", line, t.taken)
		}
		var s step
		for t.taken < number {
			s = t.next()
		}
		// The step needs what other members have written. A barrier syncs nothing.
		if err := vdb.Barrier(ctx); err != nil {
			return err
		}
		switch {
		case s.kind == stepFlush:
			return vdb.Flush(ctx)
		case verb == "begin":
			go func() { begun <- s.write(ctx, vdb) }()
			return nil
		}
		return s.write(ctx, vdb)
	}
	for lines.Scan() {
		var err error
		if t == nil {
			err = begin()
		} else {
			err = obey(lines.Text())
		}
		answer := "ok"
		if err != nil {
			answer = strings.ReplaceAll(err.Error(), "\n", " ")
		}
		if _, err := fmt.Fprintln(out, answer); err != nil {
			return
		}
	}
}

// A member is a process that shares the database of a workload with another one.
type member struct {
	sync db.SyncPolicy
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
}

// A group is two processes that share a database. They take steps in turn, so that the batches have
// one order, whoever writes them.
type group struct {
	w       *workload
	members [2]*member
	leader  int
}

// start starts a member.
func (g *group) start(i int) (err error) {
	m := &member{sync: g.w.p.members[i]}
	if m.cmd, err = command(g.w.rec.args, memberEnv+"="+g.w.dir); err != nil {
		return err
	}
	if m.in, err = m.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	m.out = bufio.NewReader(out)
	order, err := json.Marshal(memberOrder{Profile: g.w.p.name, Seed: g.w.tracks[0].seed, Sync: m.sync})
	if err != nil {
		return err
	}
	if err := m.cmd.Start(); err != nil {
		return err
	}
	g.members[i] = m
	if err := g.w.mark(opened); err != nil {
		return err
	}
	return m.do(string(order))
}

// do gives a member a command and waits for the answer.
func (m *member) do(command string) error {
	if _, err := fmt.Fprintln(m.in, command); err != nil {
		return err
	}
	line, err := m.out.ReadString('\n')
	if err == nil && line != "ok\n" {
		err = errors.New(strings.TrimSpace(line))
	}
	return err
}

// kill kills a member and waits for its end.
func (m *member) kill() {
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait() // says that it was killed
}

// runMembers takes all steps. Which member takes a step follows from the seed.
func (w *workload) runMembers(ctx context.Context) (err error) {
	g := &group{w: w}
	defer func() {
		for _, m := range g.members {
			if m != nil {
				m.kill()
			}
		}
	}()
	for i := range g.members {
		if err := g.start(i); err != nil {
			return fmt.Errorf("member %d: %w", i, err)
		}
	}
	t := w.tracks[0]
	for t.taken < w.p.steps && err == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		s := t.next()
		who := int(mix(t.seed^uint64(t.taken)) % 2)
		victim, synced := g.cut(&s, t, who)
		switch {
		case victim >= 0:
			err = g.writeCut(t, who, victim, synced)
		case s.kind < lastWrite:
			err = g.write(t, who)
		case s.kind == stepFlush:
			if err = g.members[who].do(fmt.Sprint("step ", t.taken)); err == nil {
				err = w.safe(t)
			}
		case s.kind == stepKill && who == g.leader:
			err = g.succeed()
		case s.kind == stepKill:
			g.members[who].kill()
			err = g.replace(who)
		}
		if err != nil {
			err = fmt.Errorf("step %d, member %d, the leader is %d: %w", t.taken, who, g.leader, err)
		}
	}
	if err != nil {
		return err
	}
	if err := g.members[1-g.leader].do("close"); err != nil {
		return err
	}
	if err := g.members[g.leader].do("close"); err != nil {
		return err
	}
	return w.safe(t)
}

// write has a member take a step that writes. What one with SyncAlways has acknowledged survives,
// with all batches before it, whoever has written these.
func (g *group) write(t *track, who int) error {
	batch := len(t.history) - 1
	if err := g.w.mark("begin 0 %d", batch); err != nil {
		return err
	}
	if err := g.members[who].do(fmt.Sprint("step ", t.taken)); err != nil {
		return err
	}
	return g.acknowledged(t, who)
}

// acknowledged marks that a member has acknowledged the newest batch.
func (g *group) acknowledged(t *track, who int) error {
	batch := len(t.history) - 1
	t.acked = batch
	if g.members[who].sync == db.SyncAlways {
		return g.w.safe(t)
	}
	return g.w.mark("ack 0 %d", batch)
}

// cut decides by the seed whether a member is killed while the log is synced for a step: which one,
// or -1, and whether that sync takes effect.
func (g *group) cut(s *step, t *track, who int) (victim int, synced bool) {
	always := g.members[who].sync == db.SyncAlways || g.members[g.leader].sync == db.SyncAlways
	repeats := s.kind == stepBatch || s.kind == stepCross // a batch that may be there can be written again
	if !always || !repeats {
		return -1, false
	}
	switch mix(t.seed^uint64(t.taken)<<32) % 8 {
	case 0, 1:
		return g.leader, false
	case 2:
		return g.leader, true
	case 3:
		return who, true
	}
	return -1, false
}

// writeCut has a member take a step that writes, and kills a member while the leader syncs the log.
// The call goes on if its process lives. Otherwise the batch is there or not, and is written again.
func (g *group) writeCut(t *track, who, victim int, synced bool) (err error) {
	if err := g.w.mark("begin 0 %d", len(t.history)-1); err != nil {
		return err
	}
	writer, killed := g.members[who], g.members[victim]
	if err := g.w.rec.do("stall"); err != nil {
		return err
	}
	defer func() {
		if err != nil { // a process does not end while its sync is held
			_ = g.w.rec.do("resume")
		}
	}()
	if err := writer.do(fmt.Sprint("begin ", t.taken)); err != nil {
		return err
	}
	if err := g.w.rec.do("await"); err != nil {
		return err
	}
	if who != g.leader { // whatever the leader has sent is here
		if err := writer.do("barrier"); err != nil {
			return err
		}
	}
	_ = killed.cmd.Process.Kill()
	end := "resume"
	if !synced {
		end = "lose"
	}
	if err := g.w.rec.do(end); err != nil {
		return err
	}
	killed.kill()
	if victim != who {
		if err := writer.do("end"); err != nil {
			return err
		}
		if err := g.acknowledged(t, who); err != nil {
			return err
		}
	}
	if err := g.replace(victim); err != nil {
		return err
	}
	if victim != who {
		return nil
	}
	return g.write(t, who)
}

// succeed kills the leader. The other member takes its place, and a new one follows.
func (g *group) succeed() error {
	g.members[g.leader].kill()
	return g.replace(g.leader)
}

// replace starts a member again that has been killed. If it led, the other one leads first.
func (g *group) replace(victim int) error {
	if victim == g.leader {
		g.leader = 1 - victim
		if err := g.members[g.leader].do("barrier"); err != nil {
			return err
		}
	}
	return g.start(victim)
}
