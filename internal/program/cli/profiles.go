package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/local/client"
)

// profileCommand manages profiles. A profile is a credentials file with a name, in a folder of the
// user. A link in that folder points to the profile in use.
type profileCommand struct {
	List   profileList   `cmd:"" help:"List the profiles."`
	Show   profileShow   `cmd:"" help:"Print a profile without its secret."`
	Add    profileAdd    `cmd:"" help:"Store the credentials of a file as a profile."`
	Use    profileUse    `cmd:"" help:"Use a profile in all commands without --profile or --credentials."`
	Remove profileRemove `cmd:"" help:"Remove a profile. Its key stays valid."`
}

// profileName matches the names of profiles.
var profileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

const (
	profileEnding = ".json"
	inUse         = "in-use" // the link to the profile in use
)

// profilesFolder returns the folder of the profiles, or "" if the user has no home folder.
func (s *session) profilesFolder() string {
	config := s.getenv("XDG_CONFIG_HOME")
	if home := s.getenv("HOME"); config == "" && home != "" {
		config = filepath.Join(home, ".config")
	}
	if config == "" {
		return ""
	}
	return filepath.Join(config, "weft", "profiles")
}

// profileFile returns the file of a profile. It returns an error if the profile does not exist.
func (s *session) profileFile(name string) (string, error) {
	file := filepath.Join(s.profilesFolder(), name+profileEnding)
	if _, err := os.Stat(file); err != nil || !profileName.MatchString(name) {
		all, _ := s.allProfiles()
		names := make([]string, len(all))
		for i, one := range all {
			names[i] = one.Name
		}
		return "", notFound("there is no profile %q%sTo list the profiles: weft profile list", printable(name), didYouMean(name, names))
	}
	return file, nil
}

// profileInUse returns the name of the profile in use, or "".
func (s *session) profileInUse() string {
	to, err := os.Readlink(filepath.Join(s.profilesFolder(), inUse))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(to, profileEnding)
}

// profile is a profile without its secret.
type profile struct {
	Name        string    `json:"name"`
	InUse       bool      `json:"inUse"`
	BaseURL     string    `json:"baseUrl"`
	WorkspaceID uuid.UUID `json:"workspaceId"`
	File        string    `json:"file"`
}

// readProfile returns a profile.
func (s *session) readProfile(name string) (profile, error) {
	file, err := s.profileFile(name)
	if err != nil {
		return profile{}, err
	}
	c, err := client.ReadCredentials(file)
	return profile{name, name == s.profileInUse(), c.BaseURL, c.WorkspaceID, file}, err
}

func (s *session) allProfiles() (all []profile, err error) {
	files, err := filepath.Glob(filepath.Join(s.profilesFolder(), "*"+profileEnding))
	for _, file := range files {
		one, err := s.readProfile(strings.TrimSuffix(filepath.Base(file), profileEnding))
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, err
}

type profileList struct{}

func (c *profileList) Run(s *session) error {
	all, err := s.allProfiles()
	if err != nil {
		return err
	}
	return s.printAll(all, view{columns: "NAME=name IN_USE=inUse URL=baseUrl WORKSPACE=workspaceId", empty: "No profiles. Create one: weft profile add NAME .weft/credentials.json"})
}

type profileShow struct {
	Name string `arg:"" optional:"" help:"Name of the profile. Default: the profile in use."`
}

func (c *profileShow) Run(s *session) error {
	name := cmp.Or(c.Name, s.profileInUse())
	if name == "" {
		return notFound("no profile is in use. To use one: weft profile use NAME")
	}
	one, err := s.readProfile(name)
	if err != nil {
		return err
	}
	raw, err := strictjson.Encode(one)
	return s.printAnswer(raw, err, "Name=name", "In use=inUse", "Base URL=baseUrl", "Workspace ID=workspaceId", "File=file")
}

type profileAdd struct {
	Name    string `arg:"" help:"Name of the profile: letters, digits, - and _."`
	File    string `arg:"" help:"Credentials file, such as the one that weft keys create --out writes."`
	BaseURL string `name:"base-url" placeholder:"URL" help:"Base URL of the service, instead of the base URL in the file."`
}

func (c *profileAdd) Run(s *session) error {
	dir := s.profilesFolder()
	if dir == "" {
		return usage("there is no place for profiles: set HOME or XDG_CONFIG_HOME")
	}
	if !profileName.MatchString(c.Name) {
		return usage("%q is not a name of a profile: use 1 to 64 letters, digits, - and _", printable(c.Name))
	}
	from := target{Credentials: c.File, BaseURL: c.BaseURL}
	credentials, _, err := from.signer(s)
	if err != nil {
		return err
	}
	if _, err := client.ParseBase(credentials.BaseURL); err != nil {
		return usage("--base-url: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("store the profile: %w", err)
	}
	path := filepath.Join(dir, c.Name+profileEnding)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return usage("the profile %s exists. To replace it, first run: weft profile remove %[1]s", c.Name)
	}
	if err != nil {
		return fmt.Errorf("store the profile: %w", err)
	}
	text, err := strictjson.Encode(credentials)
	if err == nil {
		err = printJSON(file, text)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(path)
		return fmt.Errorf("store the profile: %w", err)
	}
	s.note("Stored in %s. To use it: weft profile use %s", path, c.Name)
	return nil
}

type profileUse struct {
	Name string `arg:"" optional:"" help:"Name of the profile. Without it, no profile is in use."`
}

func (c *profileUse) Run(s *session) error {
	if c.Name != "" {
		if _, err := s.profileFile(c.Name); err != nil {
			return err
		}
	}
	link := filepath.Join(s.profilesFolder(), inUse)
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if c.Name == "" {
		s.note("No profile is in use.")
		return nil
	}
	if err := os.Symlink(c.Name+profileEnding, link); err != nil {
		return err
	}
	if s.getenv("WEFT_CREDENTIALS")+s.getenv("WEFT_PROFILE") != "" {
		s.note("Warning: WEFT_CREDENTIALS or WEFT_PROFILE is set, and overrides the profile in use.")
	}
	return nil
}

type profileRemove struct {
	Name string `arg:"" help:"Name of the profile."`
}

func (c *profileRemove) Run(s *session) error {
	file, err := s.profileFile(c.Name)
	if err != nil {
		return err
	}
	if c.Name == s.profileInUse() {
		if err := (&profileUse{}).Run(s); err != nil {
			return err
		}
	}
	return os.Remove(file)
}
