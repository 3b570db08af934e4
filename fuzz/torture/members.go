package torture

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
// the numbers of its track and of itself, "barrier" or "close". Steps follow from the seed, so it
// computes them itself. "begin" and these numbers begins a step, and "end" waits for its end.
// "leads" fails unless this process leads.
func memberProcess(dir string, in io.Reader, out io.Writer) {
	lines := bufio.NewScanner(in)
	var order memberOrder
	var vdb *db.DB
	var tracks []*track
	begin := func() error {
		if err := json.Unmarshal(lines.Bytes(), &order); err != nil {
			return err
		}
		at := slices.IndexFunc(profiles, func(p profile) bool { return p.name == order.Profile })
		if at < 0 {
			return fmt.Errorf("no profile %q", order.Profile)
		}
		for i := range profiles[at].tracks {
			tracks = append(tracks, newTrack(&profiles[at], order.Seed, i))
		}
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
		var number, of int
		switch _, err := fmt.Sscanf(line, "%s %d %d", &verb, &of, &number); {
		case line == "leads":
			all, err := vdb.Processes(ctx)
			if err == nil && all[0].PID != os.Getpid() {
				err = errFollows
			}
			return err
		case line == "close":
			return vdb.Close()
		case line == "barrier":
			return vdb.Barrier(ctx)
		case line == "end":
			return <-begun
		case err != nil || verb != "step" && verb != "begin" || of >= len(tracks) || number <= tracks[of].taken:
			return fmt.Errorf("cannot do %q", line)
		}
		t := tracks[of]
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
		if tracks == nil {
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

// errFollows is the answer to "leads" of a member that follows.
var errFollows = errors.New("follows")

// A member is a process that shares the database of a workload with others.
type member struct {
	sync db.SyncPolicy
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
}

// A group is some processes that share a database. Each may take the steps of every track. The
// steps of one track come one after the other, so its batches have one order, whoever writes them.
type group struct {
	w       *workload
	members []*member
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

// runMembers takes all steps. Which member takes a step, and which steps are taken at the same
// time, follows from the seed. Which member leads after one that was killed does not.
func (w *workload) runMembers(ctx context.Context) (err error) {
	g := &group{w: w, members: make([]*member, len(w.p.members))}
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
	for turn := uint64(0); ; turn++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		var left []*track
		for _, t := range w.tracks {
			if t.taken < w.p.steps {
				left = append(left, t)
			}
		}
		if len(left) == 0 {
			break
		}
		draw := mix(w.tracks[0].seed ^ turn)
		first, together := int(draw>>8)%len(g.members), draw%3 == 0
		if !together {
			left = left[int(draw>>16)%len(left):][:1]
		}
		if err := g.take(left, first); err != nil {
			return fmt.Errorf("turn %d, from member %d, the leader is %d: %w", turn, first, g.leader, err)
		}
	}
	for i, m := range g.members {
		if i != g.leader {
			if err := m.do("close"); err != nil {
				return err
			}
		}
	}
	if err := g.members[g.leader].do("close"); err != nil {
		return err
	}
	return g.safe(nil)
}

// take takes the next step of each track: writes at the same time, each in another member from
// first on, and then the others.
func (g *group) take(tracks []*track, first int) error {
	var writes []call
	var rest []call
	for i, t := range tracks {
		c := call{t: t, s: t.next(), who: (first + i) % len(g.members)}
		if c.s.kind < lastWrite {
			writes = append(writes, c)
		} else {
			rest = append(rest, c)
		}
	}
	if len(writes) > 0 {
		if err := g.write(writes); err != nil {
			return err
		}
	}
	for _, c := range rest {
		var err error
		switch {
		case c.s.kind == stepFlush:
			if err = g.members[c.who].do(c.command("step")); err == nil {
				err = g.safe(nil)
			}
		case c.s.kind == stepKill:
			g.members[c.who].kill()
			err = g.replace(c.who)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A call is a step that a member takes.
type call struct {
	t   *track
	s   step
	who int
}

func (c *call) command(verb string) string { return fmt.Sprint(verb, " ", c.t.number, " ", c.t.taken) }

// write has members take steps that write, at the same time. Now and then one of them is killed
// during that.
func (g *group) write(calls []call) error {
	for _, c := range calls {
		if err := g.w.mark("begin %d %d", c.t.number, len(c.t.history)-1); err != nil {
			return err
		}
	}
	if victim, synced := g.cut(calls); victim >= 0 {
		return g.writeCut(calls, victim, synced)
	}
	return g.together(calls, "step")
}

// together gives all members of calls a command at the same time, and waits for the answers.
func (g *group) together(calls []call, verb string) error {
	before := g.acked()
	errs := make([]error, len(calls))
	var all sync.WaitGroup
	for i, c := range calls {
		all.Go(func() {
			command := verb
			if verb == "step" {
				command = c.command(verb)
			}
			errs[i] = g.members[c.who].do(command)
		})
	}
	all.Wait()
	for i, c := range calls {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("step %d of track %d, member %d: %w", c.t.taken, c.t.number, c.who, errs[i])
			continue
		}
		errs[i] = g.acknowledged(&c, before)
	}
	return errors.Join(errs...)
}

// acked returns the newest acknowledged batch of each track.
func (g *group) acked() []int {
	acked := make([]int, len(g.w.tracks))
	for i, t := range g.w.tracks {
		acked[i] = t.acked
	}
	return acked
}

// acknowledged marks that a member has acknowledged the newest batch of a track. What one with
// SyncAlways has acknowledged survives, with all batches that were acknowledged before it began,
// whoever has written these.
func (g *group) acknowledged(c *call, before []int) error {
	c.t.acked = len(c.t.history) - 1
	if g.members[c.who].sync != db.SyncAlways {
		return g.w.mark("ack %d %d", c.t.number, c.t.acked)
	}
	if err := g.safe(before); err != nil {
		return err
	}
	return g.w.safe(c.t)
}

// safe marks that these batches of each track survive; nil: all that are acknowledged.
func (g *group) safe(batches []int) error {
	if batches == nil {
		batches = g.acked()
	}
	for i, n := range batches {
		if err := g.w.mark("safe %d %d", i, n); err != nil {
			return err
		}
	}
	return nil
}

// cut decides by the seed whether a member is killed while the log is synced for one of some steps:
// which member, or -1, and whether that sync takes effect.
func (g *group) cut(calls []call) (victim int, synced bool) {
	always := false
	for _, c := range calls {
		always = always || g.members[c.who].sync == db.SyncAlways
		if c.s.kind != stepBatch && c.s.kind != stepCross { // a batch that may be there can be written again
			return -1, false
		}
	}
	if !always && g.members[g.leader].sync != db.SyncAlways {
		return -1, false
	}
	c := calls[0]
	switch mix(c.t.seed^uint64(c.t.number)<<16^uint64(c.t.taken)<<32) % 8 {
	case 0, 1:
		return g.leader, false
	case 2:
		return g.leader, true
	case 3:
		return c.who, true
	}
	return -1, false
}

// writeCut has members take steps that write, and kills a member while the leader syncs the log.
// Calls go on if their process lives. Otherwise the batch is there or not, and is written again.
func (g *group) writeCut(calls []call, victim int, synced bool) (err error) {
	killed := g.members[victim]
	if err := g.w.rec.do("stall"); err != nil {
		return err
	}
	defer func() {
		if err != nil { // a process does not end while its sync is held
			_ = g.w.rec.do("resume")
		}
	}()
	for _, c := range calls {
		if err := g.members[c.who].do(c.command("begin")); err != nil {
			return err
		}
	}
	if err := g.w.rec.do("await"); err != nil {
		return err
	}
	var live, again []call
	for _, c := range calls {
		if c.who != g.leader { // whatever the leader has sent is here
			if err := g.members[c.who].do("barrier"); err != nil {
				return err
			}
		}
		if c.who == victim {
			again = append(again, c)
		} else {
			live = append(live, c)
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
	if err := g.together(live, "end"); err != nil {
		return err
	}
	if err := g.replace(victim); err != nil {
		return err
	}
	return g.together(again, "step")
}

// replace starts a member again that has been killed. If it led, the others first race for its
// place.
func (g *group) replace(victim int) error {
	if victim == g.leader {
		errs := make([]error, len(g.members))
		var all sync.WaitGroup
		for i, m := range g.members {
			if i != victim {
				all.Go(func() { errs[i] = m.do("barrier") })
			}
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		g.leader = -1
		for i, m := range g.members {
			if i == victim {
				continue
			}
			err := m.do("leads")
			switch {
			case err == nil && g.leader >= 0:
				return fmt.Errorf("members %d and %d lead", g.leader, i)
			case err == nil:
				g.leader = i
			case err.Error() != errFollows.Error():
				return err
			}
		}
		if g.leader < 0 {
			return errors.New("no member leads")
		}
	}
	return g.start(victim)
}
