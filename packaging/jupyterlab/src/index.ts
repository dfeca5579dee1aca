/** The extension: asks chatapp, through Jupyter's own server, for the grey text of the inline completer. */

import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import {
  CompletionHandler,
  ICompletionProviderManager,
  IInlineCompletionContext,
  IInlineCompletionItem,
  IInlineCompletionList,
  IInlineCompletionProvider
} from '@jupyterlab/completer';
import { URLExt } from '@jupyterlab/coreutils';
import { DocumentWidget } from '@jupyterlab/docregistry';
import { NotebookPanel } from '@jupyterlab/notebook';
import { ServerConnection } from '@jupyterlab/services';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

/** A text, and the place in it, as the language server wants them. */
interface IPlace {
  path: string;
  language: string;
  text: string;
  line: number;
  character: number;
}

class Provider implements IInlineCompletionProvider {
  readonly name = 'chatapp';
  readonly identifier = 'chatapp-jupyterlab:inline';
  readonly schema: ISettingRegistry.IProperty = {
    default: { threshold: 0.3, model: '' },
    properties: {
      threshold: {
        title: 'Threshold',
        description: 'How likely a suggestion must be right to appear by itself: from 0, where all do, to 1.',
        type: 'number',
        minimum: 0,
        maximum: 1
      },
      model: {
        title: 'Model',
        description: "A name of `chatapp list`, such as builtin; empty: the one of chatapp's own settings.",
        type: 'string'
      }
    }
  };

  configure(settings: { [name: string]: unknown }): void {
    this._settings = { threshold: settings.threshold ?? 0.3, model: settings.model ?? '' };
  }

  async fetch(
    request: CompletionHandler.IRequest,
    context: IInlineCompletionContext
  ): Promise<IInlineCompletionList<IInlineCompletionItem>> {
    const connection = ServerConnection.makeSettings();
    const response = await ServerConnection.makeRequest(
      URLExt.join(connection.baseUrl, 'chatapp', 'inline-completion'),
      {
        method: 'POST',
        body: JSON.stringify({
          ...findPlace(request, context),
          triggerKind: context.triggerKind + 1, // the protocol counts from 1
          settings: this._settings
        })
      },
      connection
    );
    if (!response.ok) {
      const error = await ServerConnection.ResponseError.create(response);
      if (error.message !== this._told) {
        Notification.error(`chatapp: ${error.message}`, { autoClose: 20_000 });
      }
      this._told = error.message;
      return { items: [] };
    }
    this._told = '';
    const { items, messages } = await response.json();
    for (const message of messages) {
      Notification.warning(`chatapp: ${message}`, { autoClose: 20_000 });
    }
    return { items };
  }

  private _settings: { [name: string]: unknown } = { threshold: 0.3, model: '' };
  private _told = '';
}

/** The place of a request: in a notebook, the text is that of all its cells with code. */
function findPlace(request: CompletionHandler.IRequest, context: IInlineCompletionContext): IPlace {
  const before = request.text.slice(0, request.offset).split('\n');
  const place = {
    path: context.widget instanceof DocumentWidget ? context.widget.context.localPath : '',
    language: request.mimeType?.split('/').at(-1)?.replace(/^x-(ipython|.*)$/, '$1').replace('ipython', 'python') ?? '',
    text: request.text,
    line: before.length - 1,
    character: before.at(-1)!.length
  };
  if (!(context.widget instanceof NotebookPanel)) {
    return place;
  }
  const notebook = context.widget.content;
  const information = context.widget.model?.getMetadata('language_info');
  const cells = notebook.widgets.filter(cell => cell === notebook.activeCell || cell.model.type === 'code');
  const texts = cells.map(cell => cell.model.sharedModel.getSource() + '\n\n');
  const above = texts.slice(0, cells.findIndex(cell => cell === notebook.activeCell)).join('');
  return {
    ...place,
    path: place.path + (information?.file_extension ?? '.py'),
    language: information?.name ?? 'python',
    text: texts.join(''),
    line: place.line + above.split('\n').length - 1
  };
}

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'chatapp-jupyterlab:plugin',
  description: 'Code completion by a model that runs on this machine.',
  autoStart: true,
  requires: [ICompletionProviderManager],
  activate: (_: JupyterFrontEnd, manager: ICompletionProviderManager) => {
    manager.registerInlineProvider(new Provider());
  }
};

export default plugin;
