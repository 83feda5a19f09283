// Package backup writes and restores backups of a database: `weft backup` and `weft restore`.
//
// A backup is a folder in pg_dump's directory format with one more file, weft.json, which describes
// it. The package runs PostgreSQL's programs pg_dump, pg_restore and psql. Invariants: A backup has
// every row that its snapshot had, and appears complete or not at all. A restore commits everything,
// the quarantine included, in one transaction, or nothing.
package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Database is the database of a backup or a restore.
type Database struct {
	DSN     string
	Environ []string // of PostgreSQL's programs
}

// Write backs up the database into the folder dir, which replaces an older backup once it is
// complete. It returns an error if row security hides a row from the user of the database, because
// pg_dump would leave out that row.
func Write(ctx context.Context, of Database, dir, version string) (Manifest, error) {
	dir, err := place(dir)
	if err != nil {
		return Manifest{}, err
	}
	session, err := postgres.Connect(ctx, of.DSN, "backup")
	if err != nil {
		return Manifest{}, err
	}
	defer func() { _ = session.Close(context.WithoutCancel(ctx)) }()
	var made Manifest
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, session, snapshot, func(tx pgx.Tx) error {
		made, err = describe(ctx, tx)
		if err != nil {
			return err
		}
		made.Weft = version
		return writeFolder(dir, made, func(partial string) error { return dump(ctx, of, tx, partial) })
	})
	return made, err
}

// dump runs pg_dump in the snapshot of the transaction.
func dump(ctx context.Context, of Database, tx pgx.Tx, dir string) error {
	var snapshot string
	if err := tx.QueryRow(ctx, "SELECT pg_export_snapshot()").Scan(&snapshot); err != nil {
		return fmt.Errorf("export the snapshot: %w", err)
	}
	// Row security is forced on the owner too, so without --enable-row-security pg_dump fails.
	cmd, err := of.program(ctx, "pg_dump", "--format=directory", "--enable-row-security", "--snapshot="+snapshot, "--file="+dir)
	if err != nil {
		return err
	}
	return finish("pg_dump", cmd, cmd.Run())
}

// place returns the path of dir without links. It returns an error if dir is something else than a
// backup or an empty folder.
func place(dir string) (string, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return path, nil
	case err != nil:
		return "", fmt.Errorf("%s is not a folder that can be read: choose another one", dir)
	case len(entries) == 0:
		return path, nil
	}
	if _, err := os.Stat(filepath.Join(path, manifestFile)); err != nil {
		return "", fmt.Errorf("%s has files that are not a backup of Weft: choose another folder", dir)
	}
	return path, nil
}

// writeFolder fills a folder next to dir and moves it to dir.
func writeFolder(dir string, made Manifest, fill func(partial string) error) error {
	partial, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".partial-")
	if err != nil {
		return fmt.Errorf("create the folder of the backup: %w", err)
	}
	defer os.RemoveAll(partial) // after the exchange, it is the older backup
	if err := fill(partial); err != nil {
		return err
	}
	text, err := json.MarshalIndent(made, "", "  ")
	if err == nil {
		err = writeSynced(filepath.Join(partial, manifestFile), append(text, '\n'))
	}
	if err == nil {
		err = syncFolder(partial)
	}
	if err == nil {
		err = moveTo(dir, partial)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(dir))
	}
	if err != nil {
		return fmt.Errorf("complete the backup: %w", err)
	}
	return nil
}

// moveTo renames partial to dir. An older dir gets the name partial, in the same step where the
// system can do that.
func moveTo(dir, partial string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return os.Rename(partial, dir)
	}
	if exchange(partial, dir) == nil {
		return nil
	}
	older := dir + ".older-" + time.Now().UTC().Format("20060102T150405.000000000")
	if err := os.Rename(dir, older); err != nil {
		return err
	}
	if err := os.Rename(partial, dir); err != nil {
		return errors.Join(err, os.Rename(older, dir))
	}
	return os.RemoveAll(older)
}

func writeSynced(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Sync(), file.Close())
}

func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
