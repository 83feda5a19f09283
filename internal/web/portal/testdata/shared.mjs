// The one browser of these scripts, and the deployment that it looks at.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

export const { BASE_URL: base, PICTURES: pictures } = process.env;
export const { launch, contextOf, picture } = await import(pathToFileURL(join(process.env.TOOLS, 'browser.mjs')));
export const browser = await launch();
