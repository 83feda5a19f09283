package cli

import (
	"github.com/weft-automation/weft/internal/program/app"
	"github.com/weft-automation/weft/internal/program/backup"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// backupCommand writes a backup with PostgreSQL's pg_dump.
type backupCommand struct {
	database
	Dir string `arg:"" help:"Folder of the backup. It replaces an older backup once it is complete."`
}

func (b *backupCommand) Run(s *session) error {
	dsn, stop, err := b.dsn(s.ctx)
	if err != nil {
		return err
	}
	defer stop()
	s.note("Backing up …")
	made, err := backup.Write(s.ctx, backup.Database{DSN: dsn, Environ: s.environ}, b.Dir, app.Version)
	if err != nil {
		return err
	}
	return s.reportBackup(b.Dir, made)
}

// restoreCommand restores a backup with PostgreSQL's pg_restore and psql.
type restoreCommand struct {
	database
	Dir string `arg:"" help:"Folder of the backup."`
}

func (r *restoreCommand) Run(s *session) error {
	made, err := backup.Read(r.Dir)
	if err != nil {
		return err
	}
	if r.DatabaseURL == "" {
		return usage("DATABASE_URL must be set to an empty database, as its owner")
	}
	ring, err := r.ring(s, made)
	if err != nil {
		return err
	}
	s.note("Restoring …")
	if err := backup.Restore(s.ctx, backup.Database{DSN: r.DatabaseURL, Environ: s.environ}, r.Dir, made, ring); err != nil {
		return err
	}
	if err := s.reportBackup(r.Dir, made); err != nil {
		return err
	}
	s.note("The database is in quarantine: run `weft migrate`, start Weft, check `weft quarantine status`, then run `weft quarantine release`.")
	return nil
}

// ring returns the master keys. A backup of a database that no process has used needs none.
func (r *restoreCommand) ring(s *session, made backup.Manifest) (*seal.Keyring, error) {
	switch {
	case made.KeyCheck == nil:
		return nil, nil
	case s.getenv("WEFT_MASTER_KEY") == "":
		return nil, usage("WEFT_MASTER_KEY must be set to the master key of the backup, %s: without it, the secrets in the backup cannot be read. --config reads it from a file", made.MasterKey)
	}
	return app.KeyringFromEnv(s.environ)
}

// reportBackup prints what a backup contains.
func (s *session) reportBackup(dir string, made backup.Manifest) error {
	return s.printText(dir, struct {
		Dir string `json:"dir"`
		backup.Summary
	}{dir, made.Summary()})
}
